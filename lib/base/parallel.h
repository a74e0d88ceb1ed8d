// Work in pieces of which each has nothing to do with the others, such as files to be read.
#pragma once

#include <cstddef>
#include <functional>

namespace train {

inline constexpr std::size_t kParallelMax = 4;  // one processor digests about what a disk can read

/// Do pieces 0 to `count` - 1, on the caller's thread and on others beside it: as many as there are
/// processors, `threads_max` and kParallelMax at most. Pieces are begun in ascending order, and no
/// more of them once one says false: those before that one are done nevertheless. Returns when all
/// have ended. `work` throws nothing.
void in_parallel(std::size_t count, std::size_t threads_max,
                 const std::function<bool(std::size_t piece)>& work);

}  // namespace train
