// Functions that say what the training loop is doing, so that train-run can show it, and can tell a
// worker that hangs from one that is slow. The SDK marks by itself: the start, waiting for batches,
// steps, collective calls, checkpoints, reports and validation. A program marks what else takes
// long. Like all functions of the SDK, these join the run first, and throw Failure if they cannot.
//
// The marks go into memory that the worker shares with its supervisor, which reads them whatever
// state the worker is in. A mark takes some 50 ns and never blocks. Only the first thread that
// marks anything is the loop: phases of other threads have no effect. The end of a step is a sign
// of life on any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

namespace train {

struct PhaseOptions {
  /// The time without a sign of life after which this phase hangs. It replaces the spec's
  /// phase_timeouts and hang_timeout. Zero: those apply. At most a year counts.
  std::chrono::milliseconds limit{0};
};

/// A part of the loop that phase() began. It ends with this object.
class [[nodiscard]] PhaseScope {
 public:
  PhaseScope(std::string_view name, const PhaseOptions& options);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

  /// Say how far the phase is, in at most 96 bytes: "3 of 9 GiB". A new text is a sign of life.
  void say(std::string_view text) const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

/// Begin a phase of the program's own, such as a download or an evaluation: `const auto phase =
/// train::phase("eval", {.limit = 30min});`. Phases may lie within each other. `name`: at most 64
/// bytes; it may be a key of the spec's phase_timeouts.
PhaseScope phase(std::string_view name, const PhaseOptions& options = {});

/// Say that a step has ended: a sign of life, counted and timed. Only a loop that uses none of
/// prepare_model, the SDK's batches and loaders, and report() once per step needs it. Once a
/// program has called it, nothing else counts as a step.
void step();

}  // namespace train
