// Takes a profile of a rank's processes: samples them, and has trainrun-unwind make stacks of the
// samples while others are taken. Of a Python program, py-spy takes it where that is installed.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/profile/profile.h"
#include "lib/profile/sampling/samplers.h"

namespace train {

/// How long the unwinder may take after the last sample.
inline constexpr Duration kUnwindWithin = seconds{15};

struct TakeProfileOptions {
  std::string unwinder{};  // the program; empty: find_unwinder()
};

/// Take a profile. Blocks for `order.time`, and up to kUnwindWithin, or some seconds longer if
/// py-spy fails: call it on a thread of its own. A rank that ends meanwhile, or does not run, has a
/// profile all the same. An error means that there is nothing to show.
Result<Profile> take_profile(const SamplingOrder& order, const TakeProfileOptions& options = {});

}  // namespace train
