// Alone makes reports exactly-once: it knows which reports of each rank of an attempt have been
// accepted, which of them are written, and which may be acknowledged. Batches may arrive again
// after a lost link. A gap should be impossible, and is an error.
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
  /// Accept a batch [first, first + count). Return how many reports at its front are already known:
  /// the writer leaves those out. Return an error for a gap.
  Result<std::uint32_t> accept(Rank rank, std::uint64_t first, std::uint32_t count);
  /// Record that all reports up to `last` are written, though perhaps not synced.
  void written(Rank rank, std::uint64_t last);
  /// Record that everything written so far is on disk. Return the acknowledgements that are new
  /// since the last call, and those of ranks that sent written reports again: they missed theirs.
  std::vector<std::pair<Rank, std::uint64_t>> synced();
  /// Start from the reports of this attempt that the log on disk holds.
  void restore(Rank rank, std::uint64_t last) { ranks_[rank] = {last, last}; }
  std::uint64_t last(Rank rank) const;  // the last one accepted

 private:
  struct Known {
    std::uint64_t accepted = 0, written = 0;
  };
  std::map<Rank, Known> ranks_;
  std::set<Rank> to_acknowledge_;  // so that a sync skips ranks that sent nothing
};

}  // namespace train
