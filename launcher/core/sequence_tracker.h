// Alone makes reports exactly-once: it knows which reports of each rank of an attempt have been
// accepted, which of them are written, and which may be acknowledged. Batches may arrive again
// after a lost link. A gap should be impossible, and is an error, except after the death of a
// launcher on another machine, which may have acknowledged reports that nobody else has.
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
  struct Accepted {
    std::uint32_t known = 0;  // reports at the batch's front: the writer leaves those out
    std::uint64_t lost = 0;   // reports before the batch that nobody has any more
  };
  /// Accept a batch [first, first + count). Return an error for a gap.
  Result<Accepted> accept(Rank rank, std::uint64_t first, std::uint32_t count);
  /// Record that the attempt is an earlier launcher's: what is missing before the first batch of a
  /// rank is lost.
  void adopt() { adopted_ = true; }
  /// Record that all reports up to `last` are written, though perhaps not synced.
  void written(Rank rank, std::uint64_t last);
  /// Record that everything written so far is on disk. Return the acknowledgements that are new
  /// since the last call, and those of ranks that sent written reports again: they missed theirs.
  std::vector<std::pair<Rank, std::uint64_t>> synced();
  /// Start from the reports of this attempt that the log on disk holds.
  void restore(Rank rank, std::uint64_t last) { ranks_[rank] = {last, last, false}; }
  std::uint64_t last(Rank rank) const;  // the last one accepted

 private:
  struct Known {
    std::uint64_t accepted = 0, written = 0;
    bool heard = false;  // a batch has arrived
  };
  bool adopted_ = false;
  std::map<Rank, Known> ranks_;
  std::set<Rank> to_acknowledge_;  // so that a sync skips ranks that sent nothing
};

}  // namespace train
