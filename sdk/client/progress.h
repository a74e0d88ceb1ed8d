// Marks what this worker's loop is doing in the page that it shares with its supervisor
// (lib/progress). Without a supervisor the marks go nowhere. Only the loop's thread marks
// phases: the first one that marks anything. On other threads these functions do nothing, unless
// their comment says otherwise.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "lib/base/file_descriptor.h"
#include "lib/progress/data_page.h"
#include "lib/progress/progress_writer.h"

namespace train::sdk {

/// Keeps the loop in a phase for as long as this object lives. A collective call counts as
/// completed when it ends: the supervisor sees by that which ranks have not come to the call.
class InPhase {
 public:
  explicit InPhase(Phase phase, std::string_view name = {}, std::chrono::nanoseconds limit = {});
  ~InPhase();
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  std::optional<ProgressWriter::Entered> outer_;  // none on another thread
};

/// Set the phase of the loop outside all InPhase objects.
void set_base_phase(Phase phase);
/// Return how many nanoseconds the loop has been in a phase, without the current stay in it.
std::uint64_t time_in(Phase phase);
/// Say what the current phase is doing.
void say_in_phase(std::string_view text);
/// End a step. Any thread: whoever trains shows a sign of life. `now`: of progress_now().
void end_step(StepSource source, std::uint64_t now);
void end_step(StepSource source);

/// Mark that the checkpoint has been handed over: the steps so far are in it. Any thread.
void hand_over_checkpoint(std::uint64_t checkpoint_seq);

/// Marks the wait of a backward pass for the other ranks. Any thread may mark it: the loop waits
/// until the pass is over.
class InGradientSync {
 public:
  InGradientSync();
  ~InGradientSync();
  InGradientSync(const InGradientSync&) = delete;
  InGradientSync& operator=(const InGradientSync&) = delete;

 private:
  ProgressWriter::Entered outer_;
};

/// Return the page in which the operators of this process's datasets count: the one that it shares
/// with its supervisor, if there is one.
DataPage& data_page();

/// Mark in the page behind `fd` from now on: at first what was marked so far, too, later only what
/// comes. Call this before the session is used.
void share_progress(FileDescriptor fd);
/// Stop marking in the shared page: this is the child of a fork. Async-signal-safe.
void abandon_progress_in_fork_child();

}  // namespace train::sdk
