// Copies of checkpoint shards on other nodes of the group: who keeps which, and when all have them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/ids.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// Who keeps a shard that `owner` made: itself, and the next ones of the group's nodes, around, up
/// to `replicas` of them in all. Pure.
std::vector<std::string> replica_nodes(const std::vector<std::string>& group,
                                       const std::string& owner, int replicas);

class ReplicaCopies {
 public:
  /// To a node by its name; dropped while that is away.
  using Send = std::function<void(const std::string&, const Frame&)>;
  ReplicaCopies(asio::any_io_executor executor, int replicas, Send send)
      : replicas_(replicas), send_(std::move(send)), changed_(executor) {}

  bool wanted() const { return replicas_ > 0; }
  int replicas() const { return replicas_; }
  /// The nodes of the attempt, in the order of their ranks.
  void group(Attempt attempt, std::vector<std::string> nodes) {
    groups_[attempt] = std::move(nodes);
  }
  /// Have the other nodes keep it; the names of all that have it then, `owner` first. Cancelled:
  /// one of them is lost, or the attempt is over.
  Task<std::vector<std::string>> keep(Attempt attempt, std::string owner,
                                      const ShardWritten& shard);
  /// `node` keeps it, or says why not.
  void answered(Attempt attempt, const std::string& node, const ShardKept& answer);
  /// Its link is a new one.
  void ask_again(Attempt attempt, const std::string& node);
  void lost(Attempt attempt, const std::string& node);
  void attempt_ended(Attempt attempt);

 private:
  using Key =
      std::tuple<Attempt, std::string, std::int32_t, std::uint64_t>;  // rank, checkpoint_seq
  struct Copy {
    KeepShard order;
    std::optional<Result<Unit>> outcome = {};
  };
  Task<Unit> kept(Key key);

  const int replicas_;
  Send send_;
  Notifier changed_;
  std::map<Attempt, std::vector<std::string>> groups_;
  std::map<Key, Copy> copies_;
};

}  // namespace train
