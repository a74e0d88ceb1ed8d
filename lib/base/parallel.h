// This file runs independent pieces of work in parallel, such as reading files.
#pragma once

#include <cstddef>
#include <functional>

namespace train {

inline constexpr std::size_t kParallelMax = 4;  // one processor digests about what a disk can read

/// Do pieces 0 to `count` - 1 on the caller's thread and on others beside it, using at most as many
/// threads as there are processors, and no more than `threads_max` and kParallelMax. Pieces begin
/// in ascending order. Once a piece returns false, no more pieces begin, but all pieces before it
/// are still done. Return when all have ended. `work` throws nothing.
void in_parallel(std::size_t count, std::size_t threads_max,
                 const std::function<bool(std::size_t piece)>& work);

}  // namespace train
