// The computation of the chaos worker, step by step. The checker repeats it: whatever was killed,
// restarted or resized on the way, the final state must be the same.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace train::chaos {

/// Return the state after `step`, given the state before it. A wrong bit spoils all later states.
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
