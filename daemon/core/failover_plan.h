// Decides when this node takes over the controller of a run whose launcher is gone: if the launcher
// has asked for it, and its link has been away for some time. Whether the launcher is really gone,
// the train-run that is started then finds out from the other nodes. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace train {

class FailoverPlan {
 public:
  /// Names one order: a launcher may give it again, or another launcher its own.
  using Order = std::uint64_t;

  /// The launcher of this generation has asked for it. `wait`: how long its link may be away.
  Order prepare(const std::string& run_id, std::uint64_t generation, Duration wait);
  void cancel(const std::string& run_id) { runs_.erase(run_id); }
  /// A launcher has attached. One of a later generation asks anew, if it wants to.
  void attached(const std::string& run_id, std::uint64_t generation);
  /// The link of the run's launcher has ended.
  void left(const std::string& run_id, TimePoint now);
  /// The train-run that was started for the run has ended. `final`: no other one is to be started
  /// by the order that it obeyed.
  void ended(const std::string& run_id, bool final, TimePoint now);

  /// Return the runs for which a train-run is to be started now. No run has two at a time.
  std::vector<std::string> due(TimePoint now);
  TimePoint next_deadline() const;  // TimePoint::max(): none
  /// Return the run's order; none: it has none.
  std::optional<Order> order_of(const std::string& run_id) const;

 private:
  struct Run {
    Order order = 0;
    std::uint64_t generation = 0;
    Duration wait{};
    std::optional<TimePoint> start_at = {};  // none: the launcher is there, or one was started
    bool away = false;
    int tries = 0;  // in vain, since the launcher left
  };
  static Duration pause_after(const Run& run);

  std::map<std::string, Run> runs_;
  std::map<std::string, Order> started_;  // what the train-runs that live obey, by run
  Order last_ = 0;
};

}  // namespace train
