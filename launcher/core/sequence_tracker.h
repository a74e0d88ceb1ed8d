// Makes reports exactly-once, and alone does so: it knows which reports of each rank of an attempt
// have been taken in, which of them are written, and which may be acknowledged. Batches may come
// again after a lost link. A gap cannot happen, and is reported.
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
  /// Take in a batch [first, first + count). Return how many reports at its front are known
  /// already: whoever writes the batch leaves those out. Error for a gap.
  Result<std::uint32_t> accept(Rank rank, std::uint64_t first, std::uint32_t count);
  /// All reports up to `last` are written, though perhaps not synced.
  void written(Rank rank, std::uint64_t last);
  /// Everything written so far is on disk. Return the acknowledgements that are new since the last
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
