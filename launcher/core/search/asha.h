// Decides which trials go on (ASHA, Li et al. 2018), by the stopping rule of Determined: a trial
// that reaches a rung goes on if it is among the best 1/divisor of those that have come there so
// far. Brackets differ in how early their first rung is. Pure; SearchController calls it.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/core/search/search_spec.h"

namespace train {

/// Trials of a bracket have the same rungs.
struct AshaBracket {
  std::vector<std::int64_t> rungs;  // times, growing; the last one is max_time
  int trials = 0;
  bool operator==(const AshaBracket&) const = default;
};
/// Return the brackets, that with the most rungs first. `trials`: of the sweep.
std::vector<AshaBracket> asha_brackets(const AshaSpec& spec, std::int64_t trials);

/// So many trials are trained up to this time, and then stopped.
struct TrialsToTime {
  std::int64_t trials = 0, time = 0;
  bool operator==(const TrialsToTime&) const = default;
};
/// Return what a sweep will cost if trials come to each rung one after the other.
std::vector<TrialsToTime> asha_preview(const AshaSpec& spec, std::int64_t trials);

class Asha {
 public:
  Asha(const AshaSpec& spec, SearchMode mode, std::int64_t trials);

  /// Return the time of the trial's next rung; nothing if it has passed the last one.
  std::optional<std::int64_t> next_rung(int trial) const;
  /// Take a report in. Return whether the trial is to stop.
  bool reported(int trial, double time, double value);
  /// Count a trial that has failed as the worst at the rung that it did not reach.
  void failed(int trial);

 private:
  struct Rung {
    std::int64_t time = 0;
    std::vector<double> values = {};  // the best first, NaN last
  };
  struct Bracket {
    std::vector<Rung> rungs;
    int end = 0;  // the number after that of its last trial
  };
  Bracket& bracket_of(int trial);
  const Bracket& bracket_of(int trial) const;
  std::size_t& passed(int trial);
  /// Return the value's place among those of the rung, which has it from now on.
  std::size_t insert(Rung& rung, double value) const;

  const std::size_t divisor_;
  const SearchMode mode_;
  std::vector<Bracket> brackets_;
  std::vector<std::size_t> passed_;  // rungs, by trial
};

}  // namespace train
