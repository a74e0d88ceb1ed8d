// Transfers the shards of checkpoints that nodes keep on their own disks. The shards of nodes
// without access to the run's storage are fetched into the pending checkpoint before the controller
// hears of them, so that everything after that works as if the node had written them there. With
// `replicas`, other nodes copy the shards before that. In the other direction, the launcher reads
// for such nodes what they restore.
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

inline constexpr int kFetchedAtOnce = 16;  // shards; each has at most kWindowBytesMax in memory

class ShardTransfer {
 public:
  /// `replicas`: how many nodes keep a shard; 0: the launcher's storage does. `events` gets
  /// ShardStaged and NodeGroupGone.
  ShardTransfer(asio::any_io_executor executor, Scope& scope, const Clock& clock, RunRecord& record,
                int replicas, NodeLinks& links, EventSink& events, UserMessages& messages);

  // What nodes say.
  void prepared(const Sender& from, const Prepared& message);
  /// Return whether the shard is brought here first, so that the controller hears of it later.
  bool takes(const Sender& from, const ShardWritten& shard);
  /// Return whether the end of the node's group waits for shards that are still being brought from
  /// there.
  bool holds_end(const Sender& from);
  void bytes(const Sender& from, FileBytes answer);
  void serve(const Sender& to, const ReadFile& request);
  void kept(const Sender& from, const ShardKept& answer);
  /// A supervisor has attached over a new link.
  void attached(const Sender& from, const AttemptSnapshot& snapshot);
  void lost(const Sender& source);

  /// Take in an event: NodeDown ends what is fetched from that node.
  void saw(const RunEvent& event);
  /// Let nodes read what the attempt restores. Report each node that has no access to the storage,
  /// once.
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
  std::set<std::string> restored_;  // checkpoints that supervisors may read, beside the run's own
  std::set<NodeId> relayed_, not_told_;
  int active_ = 0;
};

}  // namespace train
