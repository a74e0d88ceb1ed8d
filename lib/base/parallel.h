// This file runs independent pieces of work in parallel, such as reading files.
#pragma once

#include <cstddef>
#include <functional>

namespace train {

// One processor digests about as fast as a disk reads.
inline constexpr std::size_t kParallelMax = 4;

/// Do pieces 0 to `count` - 1 on the caller's thread and on additional threads: at most one thread
/// per processor, and at most `threads_max` and kParallelMax. Pieces begin in ascending order. Once
/// a piece returns false, no more pieces begin, but all pieces before it are completed. Returns
/// when all have ended. `work` must not throw.
void in_parallel(std::size_t count, std::size_t threads_max,
                 const std::function<bool(std::size_t piece)>& work);

}  // namespace train
