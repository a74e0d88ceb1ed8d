// Says in a few words where a crash was. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/stacks/process_stacks.h"

namespace train {

/// Return "Model::forward (model.cc:41) <- main (main.cc:88)": the innermost functions that tell a
/// user where, without machinery and what only carries out an abort. "" if no frame has a name.
std::string describe_crash_place(const std::vector<StackFrame>& frames);

/// Return the frames, "#0 Model::forward(int) model.cc:41" a line each: at most kCrashFramesMax.
std::string describe_crash_stack(const ThreadStack& thread);

inline constexpr std::size_t kCrashFramesMax = 64;

}  // namespace train
