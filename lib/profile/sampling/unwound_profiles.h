// The profiles that trainrun-unwind has made of samples.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/profile/profile_builder.h"

namespace train {

/// Add the profiles of a stream of messages, and return how many samples they account for.
std::uint64_t add_unwound_profiles(std::string_view messages, ProfileBuilder& all);

}  // namespace train
