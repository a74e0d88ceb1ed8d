// What a worker has allocated at one place of its program while it was watched. Estimates, made of
// samples.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/fields.h"

namespace train {

struct AllocationStack {
  std::vector<std::uint64_t> addresses = {};  // return addresses, innermost first; none: unknown
  std::uint64_t allocated = 0;                // bytes
  std::uint64_t live = 0;                     // bytes of these that had not been freed at the end
  std::uint64_t samples = 0;                  // how many allocations this is estimated from
  bool operator==(const AllocationStack&) const = default;
  TRAIN_ARRAY(addresses, allocated, live, samples)
};

/// How the samples were taken.
struct AllocationFacts {
  std::uint64_t lasted_ns = 0;
  std::uint64_t sample_bytes = 0;  // one sample stands for so many bytes, on average
  std::uint64_t entries = 0;       // of programs and libraries that led to our functions
  std::uint64_t unwatched = 0;     // bytes that count as still allocated, since nobody watched them
  bool operator==(const AllocationFacts&) const = default;
  TRAIN_FIELDS(lasted_ns, sample_bytes, entries, unwatched)
};

inline constexpr std::size_t kAllocationDepthMax = 128;  // addresses of a stack

}  // namespace train
