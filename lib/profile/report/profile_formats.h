// A profile in the formats that other programs read. Pure.
#pragma once

#include <string>

#include "lib/profile/profile.h"
#include "lib/profile/report/hot_functions.h"

namespace train {

/// Return a line for each stack, "thread worker;main;step 12", as flamegraph.pl and others read it.
/// The number is of samples, or of bytes of memory.
std::string folded_stacks(const Profile& profile);

/// Return a file for https://www.speedscope.app, of its "sampled" type, in microseconds or bytes.
std::string speedscope_json(const Profile& profile, const ProfiledRank& whom);

}  // namespace train
