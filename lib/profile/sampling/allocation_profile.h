// Makes a profile of what the SDK has seen a worker allocate: has trainrun-unwind name the
// functions.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/model/allocation_stack.h"
#include "lib/profile/profile.h"
#include "lib/profile/sampling/take_profile.h"
#include "lib/stacks/process_capture.h"

namespace train {

/// `process`: where the worker's code is, without threads. Blocks up to kUnwindWithin: call it on a
/// thread of its own. Without the program that unwinds, and if it fails, functions have no names,
/// which a note tells.
Result<Profile> allocation_profile(const std::vector<AllocationStack>& stacks,
                                   const AllocationFacts& seen, const ProcessCapture& process,
                                   const TakeProfileOptions& options = {});

/// Makes a profile of stacks whose frames have names: their addresses are indices in `names`; one
/// that is not counts as unknown. Pure. `engine`: what has taken it.
Profile named_allocation_profile(const std::vector<AllocationStack>& stacks,
                                 const AllocationFacts& seen, const std::vector<std::string>& names,
                                 const std::string& engine);

}  // namespace train
