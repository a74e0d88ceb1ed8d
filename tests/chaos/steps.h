// What the chaos worker computes, step by step. The checker computes it once more: whatever was
// killed, restarted or resized on the way, the end must be the same.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace train::chaos {

/// The state after `step`, of the state before it. Of one bit too few or many nothing is left.
inline std::uint64_t after_step(std::uint64_t state, std::int64_t step) {
  std::uint64_t z = state + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(step) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

inline std::string state_text(std::uint64_t state) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(state));
  return text;
}

}  // namespace train::chaos
