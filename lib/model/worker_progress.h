// What a worker's training loop is doing, as its SDK says in the page that it shares with its
// supervisor (lib/progress).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/fields.h"

namespace train {

/// Part of a training loop. The SDK marks all of them except Own by itself.
enum class Phase : std::uint8_t {
  None,        // not known: the program does not use the SDK
  Start,       // until the first batch, step or report
  Restore,     // reading the checkpoint to start from
  Data,        // waiting for a batch
  Step,        // everything else: between batches
  Collective,  // waiting in a call that all ranks make
  Checkpoint,  // handing over a checkpoint
  Report,      // waiting in report() for capacity: until train-run has written earlier reports
  Validate,    // between batches of a dataset other than `train`
  Stop,        // the loop is over: handing over what is left
  Own,         // a phase that the program named with train::phase()
  Once,        // waiting until a rank of the same node has run once_per_node()
  Wait         // waiting until train-run has committed or validated checkpoints
};

/// The names that people read and that phase_timeouts takes.
inline constexpr std::array<std::string_view, 13> kPhases{
    "none",   "start",    "restore", "data", "step", "collective", "checkpoint",
    "report", "validate", "stop",    "own",  "once", "wait"};

constexpr std::string_view to_string(Phase phase) {
  return kPhases[static_cast<std::size_t>(phase)];
}

constexpr std::optional<Phase> parse_phase(std::string_view name) {
  for (std::size_t i = 0; i < kPhases.size(); ++i)
    if (kPhases[i] == name) return static_cast<Phase>(i);
  return std::nullopt;
}

/// The intervals between two signs of life that passed in one phase. The last one, which has not
/// ended yet, is not included.
struct PhaseIntervals {
  std::uint64_t count = 0;
  std::int64_t total_us = 0;
  std::int64_t longest_us = 0;
  bool operator==(const PhaseIntervals&) const = default;
  TRAIN_ARRAY(count, total_us, longest_us)
};

/// Checkpoints whose hand-over is remembered: two may be in progress, and one is committed.
inline constexpr std::size_t kHandedOverMax = 4;

/// A checkpoint that a worker has handed over, and how long it had been in Phase::Step until then.
struct HandedOverCheckpoint {
  std::uint64_t checkpoint_seq = 0;
  std::int64_t step_us = 0;
  bool operator==(const HandedOverCheckpoint&) const = default;
  TRAIN_ARRAY(checkpoint_seq, step_us)
};

/// A worker's progress at one moment. A sign of life is a change of the phase or of its text, or
/// the end of a step.
struct WorkerProgress {
  Phase phase = Phase::None;
  std::string name = {};                       // of an own phase, or of a collective call
  std::string text = {};                       // what an own phase says of itself
  std::int64_t quiet_us = 0;                   // since the last sign of life
  std::int64_t limit_us = 0;                   // the program's own limit for this phase; 0: none
  std::uint64_t signs = 0;                     // of life, so far
  std::uint64_t steps = 0;                     // ended
  std::int64_t last_step_us = 0;               // how long the last step took; 0: not known
  std::uint64_t collectives = 0;               // completed calls
  std::vector<PhaseIntervals> intervals = {};  // by Phase
  std::vector<HandedOverCheckpoint> handed_over = {};  // the newest ones, in any order
  bool operator==(const WorkerProgress&) const = default;
  TRAIN_ARRAY(phase, name, text, quiet_us, limit_us, signs, steps, last_step_us, collectives,
              intervals, handed_over)
};

}  // namespace train
