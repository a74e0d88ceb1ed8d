// Exactly-once for reports: what has been taken in of each rank of the attempt, and what may be
// acknowledged. Batches may come again after a lost link; a gap cannot be, and is named.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/result.h"

namespace train {

class SequenceTracker {
 public:
  /// How many reports at the front of a batch [first, first + count) are already known. Error for a
  /// gap.
  Result<std::uint32_t> accept(Rank rank, std::uint64_t first, std::uint32_t count);
  /// Everything accepted so far is on disk: the acknowledgements that are new since the last call.
  std::vector<std::pair<Rank, std::uint64_t>> synced();
  /// Start from what the report log on disk holds of this attempt.
  void restore(Rank rank, std::uint64_t last) { last_[rank] = last; }
  std::uint64_t last(Rank rank) const;

 private:
  std::map<Rank, std::uint64_t> last_;
  std::set<Rank> to_acknowledge_;  // only these: a sync looks at no rank that sent nothing
};

}  // namespace train
