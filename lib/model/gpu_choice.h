// How GPUs are named in options and in the spec: by an index in the order of the PCI bus, by a
// UUID, or by the beginning of a UUID.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace train {

inline constexpr std::string_view kGpuUuidPrefix = "GPU-";

/// Return whether a text can name a GPU.
constexpr bool is_gpu_name(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_part = [&](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '/';
  };
  if (text.starts_with(kGpuUuidPrefix) || text.starts_with("MIG-"))
    return text.size() > 4 && text.size() <= 96 && std::all_of(text.begin(), text.end(), is_part);
  return !text.empty() && text.size() <= 4 && std::all_of(text.begin(), text.end(), is_digit);
}

/// Return whether `choice` has this GPU. An empty one has all.
inline bool is_chosen(const std::vector<std::string>& choice, const std::string& name,
                      const std::string& uuid) {
  return choice.empty() || std::any_of(choice.begin(), choice.end(), [&](const std::string& one) {
           return one == name || (one.starts_with(kGpuUuidPrefix) && uuid.starts_with(one));
         });
}

}  // namespace train
