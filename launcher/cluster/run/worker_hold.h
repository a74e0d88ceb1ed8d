// Holds the workers whose processes stay after a run that has ended well, until another run has
// taken them or nobody wants them any more (docs/driver.md, "Several runs by the same workers").
// All on the executor's thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <optional>
#include <set>

#include "launcher/cluster/links/node_links.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

/// How long workers have to end by themselves, unless somebody says otherwise.
inline constexpr Duration kPatience = seconds(5);

class WorkerHold {
 public:
  WorkerHold(asio::any_io_executor executor, const Clock& clock, NodeLinks& links)
      : clock_(clock), links_(links), changed_(std::move(executor)) {}

  // what happens
  /// A node's supervisor is told to keep its workers.
  void keeps(NodeId node);
  /// It has forgotten the run, and its workers wait for another.
  void waits(NodeId node);
  /// It has ended, and the workers with it.
  void lost(NodeId node);
  /// Another train-run has the workers.
  void superseded();
  /// Nobody wants the workers any more: they end, at once or when the run has ended.
  void let_go(Duration patience);

  bool holds_any() const { return !on_.empty(); }
  bool has_let_go() const { return let_go_.has_value(); }
  bool is_superseded() const { return superseded_; }

  /// Wait until no supervisor says anything of this run any more: the next run would take it for
  /// its own. Return false if that takes too long.
  asio::awaitable<bool> all_wait();
  /// Wait until another run has the workers; or end them once they are let go, or have waited for
  /// 10 minutes. `attempt`: their number.
  asio::awaitable<void> hold(Attempt attempt);
  /// End the workers, and wait for their ends.
  asio::awaitable<void> end(Attempt attempt);

 private:
  Task<Unit> wait_for_all();

  const Clock& clock_;
  NodeLinks& links_;
  Notifier changed_;
  std::set<NodeId> on_;             // where they are
  std::set<NodeId> waiting_on_;     // where their supervisor has forgotten this run
  std::optional<Duration> let_go_;  // with this patience
  bool superseded_ = false;
};

}  // namespace train
