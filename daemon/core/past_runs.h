// Remembers runs that have nothing on this node any more, so that an older launcher of one is still
// refused, and none of its attempts begins a second time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "lib/base/ids.h"

namespace train {

struct PastRun {
  std::uint64_t generation = 0;
  std::optional<Attempt> ended = {};  // the newest attempt whose supervisor has ended
};

/// The last thousand.
class PastRuns {
 public:
  void add(const std::string& run_id, const PastRun& past) {
    if (past.generation == 0 && !past.ended) return;  // as if it were unknown: train-run nodes
    if (by_id_.insert_or_assign(run_id, past).second) order_.push_back(run_id);
    if (order_.size() <= kMax) return;
    by_id_.erase(order_.front());
    order_.pop_front();
  }
  /// Return what is known of the run; for an unknown one, generation 0.
  PastRun find(const std::string& run_id) const {
    const auto found = by_id_.find(run_id);
    return found == by_id_.end() ? PastRun{} : found->second;
  }

 private:
  static constexpr std::size_t kMax = 1000;
  std::map<std::string, PastRun> by_id_;
  std::deque<std::string> order_;  // the oldest first
};

}  // namespace train
