// Decides which trials stop by the median stopping rule (Golovin et al. 2017), as Ray Tune does: a
// trial stops if its best value so far is worse than the median of what the others had on average
// until then. Pure; SearchController calls it.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/core/search/search_spec.h"

namespace train {

class MedianRule {
 public:
  /// How many reports of a trial are kept; of more, each second one is left out.
  static constexpr std::size_t kKeptMax = 4096;

  MedianRule(const MedianSpec& spec, SearchMode mode) : spec_(spec), mode_(mode) {}

  /// Take a report in. Its time is greater than those of the trial's earlier ones. Return whether
  /// the trial is to stop.
  bool reported(int trial, double time, double value);

 private:
  /// The sum and number of a trial's finite values from grace_time up to a time.
  struct Sum {
    double time = 0, sum = 0;
    std::int64_t count = 0;
  };
  struct History {
    std::vector<Sum> sums = {};
    std::optional<double> best = {};  // also before grace_time
  };

  const MedianSpec spec_;
  const SearchMode mode_;
  std::vector<History> trials_;
};

}  // namespace train
