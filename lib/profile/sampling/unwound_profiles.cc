#include "lib/profile/sampling/unwound_profiles.h"

#include "lib/profile/profile_codec.h"
#include "lib/stacks/stacks_codec.h"

namespace train {

std::uint64_t add_unwound_profiles(std::string_view messages, ProfileBuilder& all) {
  std::uint64_t samples = 0;
  while (const auto payload = next_stack_message(messages)) {
    const auto profile = decode_profile(*payload);
    if (!profile) break;
    samples += samples_of(*profile) + profile->facts.lost;
    all.add(*profile);
  }
  return samples;
}

}  // namespace train
