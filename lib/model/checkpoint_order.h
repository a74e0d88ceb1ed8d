// A checkpoint that somebody asked a running group for: what the launcher orders the ranks to do.
// lib/wire/PROTOCOL.md, "A checkpoint now".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace train {

enum class CheckpointStep {
  Ask,    // each rank tells how far it has got, and goes no further
  Make,   // all make the checkpoint at the same place, and go on
  Cancel  // there will be none: go on
};

inline constexpr std::array<std::string_view, 3> kCheckpointSteps{"ask", "make", "cancel"};

constexpr std::string_view to_string(CheckpointStep step) {
  return kCheckpointSteps[static_cast<std::size_t>(step)];
}

constexpr std::optional<CheckpointStep> parse_checkpoint_step(std::string_view text) {
  for (std::size_t i = 0; i < kCheckpointSteps.size(); ++i)
    if (kCheckpointSteps[i] == text) return static_cast<CheckpointStep>(i);
  return std::nullopt;
}

struct CheckpointOrder {
  std::uint64_t request = 0;  // its number in the attempt, from 1
  CheckpointStep step = CheckpointStep::Ask;
  // Make: one of them is set.
  std::uint64_t report_seq = 0;  // make it in this report
  std::uint64_t call = 0;        // this call of checkpoint_requested() returns true
  bool operator==(const CheckpointOrder&) const = default;
};

}  // namespace train
