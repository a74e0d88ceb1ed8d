// Transfers the shards of checkpoints that nodes keep on their own disks. The shards of nodes
// without access to the run's storage are fetched into the pending checkpoint before the controller
// is told about them, so that everything after that works as if the node had written them there.
// With `replicas`, other nodes copy the shards instead. In the other direction, the launcher serves
// such nodes the files that they restore.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "launcher/cluster/checkpoints/replica_copies.h"
#include "launcher/cluster/links/controller_messages.h"
#include "launcher/cluster/links/event_sink.h"
#include "launcher/cluster/links/file_relay.h"
#include "launcher/cluster/links/node_links.h"
#include "launcher/cluster/run/run_record.h"
#include "launcher/core/shard_collection.h"
#include "launcher/report/user_messages.h"
#include "lib/net/scope.h"
#include "lib/transfer/file_fetcher.h"
#include "lib/transfer/file_server.h"

namespace train {

/// How many shards are fetched at once; each has at most kWindowBytesMax in memory.
inline constexpr int kFetchedAtOnce = 16;

class ShardTransfer {
 public:
  /// `replicas`: how many nodes keep a shard; 0: the launcher's storage keeps it. `events` receives
  /// ShardStaged and NodeGroupGone.
  ShardTransfer(asio::any_io_executor executor, Scope& scope, const Clock& clock, RunRecord& record,
                int replicas, NodeLinks& links, EventSink& events, UserMessages& messages);

  // Messages from nodes.
  void prepared(const Sender& from, const Prepared& message);
  /// Return whether the shard is transferred first, so that the controller is told about it later.
  bool takes(const Sender& from, const ShardWritten& shard);
  /// Return whether the end of the node's group has to wait for shards that are still being
  /// transferred from it.
  bool holds_end(const Sender& from);
  void bytes(const Sender& from, FileBytes answer);
  void serve(const Sender& to, const ReadFile& request);
  void kept(const Sender& from, const ShardKept& answer);
  /// Handle a supervisor that has attached over a new link.
  void attached(const Sender& from, const AttemptSnapshot& snapshot);
  void lost(const Sender& source);

  /// Handle an event: NodeDown ends the transfers from that node.
  void saw(const RunEvent& event);
  /// Let nodes read what the attempt restores. Tell the user about each node that has no access to
  /// the storage, once.
  void starting(const Start& action);
  void attempt_ended(Attempt attempt);
  FileRelay& relay() { return relay_; }
  /// Return whether the node had no access to the storage when it was asked.
  bool has_no_access(NodeId node) const { return relayed_.count(node) != 0; }

 private:
  void learn_locations(const std::string& folder);
  bool may_be_read(const std::string& folder) const;
  asio::awaitable<void> collect(Sender source, ShardWritten shard);
  Task<Fetched> fetch(Sender source, const ShardWritten& shard, const PendingCheckpoint& pending);
  Task<std::vector<std::string>> copy(Sender source, const ShardWritten& shard,
                                      const PendingCheckpoint& pending);
  Task<std::vector<std::string>> bring(Sender source, const ShardWritten& shard,
                                       const PendingCheckpoint& pending);
  Task<Unit> wait_for_turn();
  std::shared_ptr<FileFetcher> fetcher(Sender source);
  void look_again(Attempt attempt);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Clock& clock_;
  RunRecord& record_;
  NodeLinks& links_;
  EventSink& events_;
  UserMessages& messages_;
  PosixFileSystem files_;
  Notifier changed_;
  asio::thread_pool disk_{2};
  FileServer server_;
  FileRelay relay_;
  ReplicaCopies copies_;
  std::map<Sender, std::shared_ptr<FileFetcher>> fetchers_;  // shared with their flows
  ShardCollection collection_;
  std::set<std::string> restored_;  // checkpoints that supervisors may read, besides the run's own
  std::set<NodeId> relayed_, not_told_;
  int active_ = 0;
};

}  // namespace train
