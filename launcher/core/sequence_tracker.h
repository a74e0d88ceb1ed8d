// Exactly-once for reports, and the one owner of that: what has been taken in of each rank of an
// attempt, what of it is written, and what may be acknowledged. Batches may come again after a lost
// link; a gap cannot be, and is named.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/result.h"

namespace train {

class SequenceTracker {
 public:
  /// Take in a batch [first, first + count). Returns how many reports at its front are known
  /// already: whoever writes it leaves those out. Error for a gap.
  Result<std::uint32_t> accept(Rank rank, std::uint64_t first, std::uint32_t count);
  /// All up to `last` is written, though perhaps not synced.
  void written(Rank rank, std::uint64_t last);
  /// Everything written so far is on disk. Returns the acknowledgements that are new since the last
  /// call, and those of ranks that sent again what was written: they have not heard of them.
  std::vector<std::pair<Rank, std::uint64_t>> synced();
  /// Start from what the report log on disk holds of this attempt.
  void restore(Rank rank, std::uint64_t last) { ranks_[rank] = {last, last}; }
  std::uint64_t last(Rank rank) const;  // taken in

 private:
  struct Known {
    std::uint64_t accepted = 0, written = 0;
  };
  std::map<Rank, Known> ranks_;
  std::set<Rank> to_acknowledge_;  // only these: a sync looks at no rank that sent nothing
};

}  // namespace train
