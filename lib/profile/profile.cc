#include "lib/profile/profile.h"

#include "lib/stacks/function_names.h"

namespace train {

std::string short_name(const ProfileFrame& frame) {
  if (frame.function.empty() || frame.module.empty()) return full_name(frame);
  std::string name = short_function_name(frame.function);
  return name.empty() ? frame.function : name;
}

std::string full_name(const ProfileFrame& frame) {
  if (!frame.function.empty()) return frame.function;
  return frame.module.empty() ? "[unknown]" : "[" + frame.module + "]";
}

std::uint64_t samples_of(const Profile& profile) {
  std::uint64_t samples = 0;
  for (const ProfileStack& stack : profile.stacks) samples += stack.samples;
  return samples;
}

std::uint64_t live_bytes_of(const Profile& profile) {
  std::uint64_t bytes = 0;
  for (const ProfileStack& stack : profile.stacks)
    bytes += is_live(profile, stack) ? stack.samples : 0;
  return bytes;
}

bool is_live(const Profile& profile, const ProfileStack& stack) {
  return !stack.frames.empty() && profile.frames.at(stack.frames[0]).function == kLiveMemory;
}

}  // namespace train
