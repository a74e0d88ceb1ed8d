// Orders other nodes of the group to keep copies of checkpoint shards, and tracks which nodes keep
// which shard, and when all of them have it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/cluster/links/node_links.h"
#include "lib/base/ids.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// Return the nodes that keep a shard that `owner` made: `owner` and the nodes after it in the
/// group, in a circle, up to `replicas` in all. Pure.
std::vector<std::string> replica_nodes(const std::vector<std::string>& group,
                                       const std::string& owner, int replicas);

class ReplicaCopies {
 public:
  ReplicaCopies(asio::any_io_executor executor, int replicas, NodeLinks& links)
      : replicas_(replicas), links_(links), changed_(executor) {}

  bool wanted() const { return replicas_ > 0; }
  int replicas() const { return replicas_; }
  /// Set the nodes of the attempt, in the order of their ranks.
  void group(Attempt attempt, std::vector<std::string> nodes) {
    groups_[attempt] = std::move(nodes);
  }
  /// Order the other nodes to keep the shard. Return the names of all nodes that then have it,
  /// `owner` first. Cancelled if one of them is lost or the attempt is over.
  Task<std::vector<std::string>> keep(Attempt attempt, std::string owner,
                                      const ShardWritten& shard);
  /// Handle `node`'s answer: it keeps the shard, or it says why it does not.
  void answered(Attempt attempt, const std::string& node, const ShardKept& answer);
  /// Send `node` the unanswered orders again, because it has a new link.
  void ask_again(Attempt attempt, const std::string& node);
  void lost(Attempt attempt, const std::string& node);
  void attempt_ended(Attempt attempt);

 private:
  /// Attempt, node, rank, checkpoint_seq.
  using Key = std::tuple<Attempt, std::string, std::int32_t, std::uint64_t>;
  struct Copy {
    KeepShard order;
    std::optional<Result<Unit>> outcome = {};
  };
  Task<Unit> kept(Key key);
  void send(const std::string& node, const Frame& frame);

  const int replicas_;
  NodeLinks& links_;
  Notifier changed_;
  std::map<Attempt, std::vector<std::string>> groups_;
  std::map<Key, Copy> copies_;
};

}  // namespace train
