// Estimates how long a run still takes, from metrics that count towards a known value. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/base/time.h"

namespace train {

/// The run ends when the metric reaches this value.
struct Goal {
  std::string metric;
  double value = 0;
};

class TimeLeft {
 public:
  TimeLeft() = default;
  explicit TimeLeft(const std::vector<Goal>& goals);

  /// Take in a report of rank 0. A counter that goes back (after a restart) starts afresh.
  void reported(const Metrics& metrics, TimePoint now);
  /// Return the time until the first goal is reached at the pace so far; none until a counter has
  /// moved. Metrics that are not whole numbers are not counters: an accuracy does not grow evenly.
  std::optional<Duration> left(TimePoint now) const;

 private:
  struct Counter {
    Goal goal;
    std::optional<std::pair<TimePoint, double>> first, newest;  // newest: when it reached its value
    bool whole = true;
  };
  std::vector<Counter> counters_;
};

}  // namespace train
