// Takes a profile of a Python program by py-spy, and reads what that writes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "lib/base/result.h"
#include "lib/profile/profile_builder.h"
#include "lib/profile/sampling/samplers.h"

namespace train {

/// Count the stacks of py-spy's format "raw", a line each:
/// process 7:"python a.py";thread (7): MainThread;main (a.py:3) 12
/// The process is named if it is not `program`. A line that is none is passed over. Pure.
void add_raw_stacks(std::string_view text, pid_t program, ProfileBuilder& profile);

/// Take a profile of the program `program` of a rank, and of the processes that it has started.
/// Nothing: it does not run Python. NotFound: py-spy is not installed. Blocks for the order's time,
/// rounded up to seconds, and at most kPySpyMargin longer. py-spy only reads memory, and stops
/// nothing.
Result<std::optional<Profile>> take_python_profile(const SamplingOrder& order, pid_t program);

inline constexpr Duration kPySpyMargin = seconds{5};  // to begin, and to end

}  // namespace train
