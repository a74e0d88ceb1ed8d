// Watches what this process allocates, by functions of ours between the program and malloc, calloc,
// realloc, free and their kin: they take samples, and pass each call on. While nothing is watched,
// they are not in the way. A process can be watched by one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "lib/model/allocation_stack.h"

namespace train::sdk {

struct WatchedAllocations {
  std::vector<AllocationStack> stacks = {};
  AllocationFacts facts = {};
};

/// Begin to watch, and take a sample each so many bytes on average. Fails if somebody watches
/// already, or if nothing can be watched.
Result<Unit> begin_watching_allocations(std::uint64_t sample_bytes);
/// Have libraries that were loaded meanwhile watched as well. Call it often.
void watch_new_libraries();
/// Take our functions out of the way, and return what was seen. What the program has kept of them,
/// such as a pointer to a function, passes calls on for ever.
WatchedAllocations end_watching_allocations();

/// Stop taking samples in the child of a fork, where the thread that would end it does not exist.
/// Async-signal-safe.
void abandon_watch_in_fork_child();

inline constexpr std::uint64_t kSampleBytes = 512u << 10;

}  // namespace train::sdk
