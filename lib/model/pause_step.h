// The steps that bring the ranks of a group to rest: lib/wire/PROTOCOL.md, "Stopping
// gracefully".
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace train {

enum class PauseStep {
  Pause,       // each rank stops at its next report and tells which one that is
  Advance,     // all continue to the highest of these reports
  Checkpoint,  // all are there: whoever has no checkpoint of that report makes one
  Finish       // all leave their loops
};

inline constexpr std::array<std::string_view, 4> kPauseSteps{"pause", "advance", "checkpoint",
                                                             "finish"};

constexpr std::string_view to_string(PauseStep step) {
  return kPauseSteps[static_cast<std::size_t>(step)];
}

constexpr std::optional<PauseStep> parse_pause_step(std::string_view text) {
  for (std::size_t i = 0; i < kPauseSteps.size(); ++i)
    if (kPauseSteps[i] == text) return static_cast<PauseStep>(i);
  return std::nullopt;
}

}  // namespace train
