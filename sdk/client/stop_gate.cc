#include "sdk/client/stop_gate.h"

#include <utility>

namespace train::sdk {

bool StopGate::take_over(bool at_checkpoint) {
  if (step_ == PauseStep::Finish || at_checkpoint || !at_checkpoint_) return false;
  at_checkpoint_ = false;
  step_.reset();
  return true;
}

bool StopGate::pause(bool at_checkpoint) {
  const bool took_over = take_over(at_checkpoint);
  if (!step_) {
    step_ = PauseStep::Pause;
    at_checkpoint_ = at_checkpoint;
  }
  return took_over;
}

bool StopGate::advance(std::uint64_t target, bool at_checkpoint) {
  const bool repeated =
      step_ == PauseStep::Checkpoint && at_checkpoint == at_checkpoint_ && target <= target_;
  return !repeated && move_to(PauseStep::Advance, target, at_checkpoint);
}

bool StopGate::checkpoint(std::uint64_t target, bool at_checkpoint) {
  return move_to(PauseStep::Checkpoint, target, at_checkpoint);
}

bool StopGate::move_to(PauseStep step, std::uint64_t target, bool at_checkpoint) {
  const bool took_over = take_over(at_checkpoint);
  const bool late = step_ && at_checkpoint && !at_checkpoint_;
  if (step_ == PauseStep::Finish || late) return false;
  step_ = step;
  at_checkpoint_ = at_checkpoint;
  target_ = target;
  return took_over;
}

void StopGate::finish(std::string reason) {
  if (step_ == PauseStep::Finish) return;
  step_ = PauseStep::Finish;
  at_checkpoint_ = false;
  reason_ = std::move(reason);
}

StopGate::Next StopGate::after_report(std::uint64_t last_report_seq, bool has_checkpoint) const {
  const bool not_here = at_checkpoint_ && !has_checkpoint;
  if (!step_) return Next::GoOn;
  switch (*step_) {
    case PauseStep::Pause:
      return not_here ? Next::GoOn : Next::Wait;
    case PauseStep::Advance:
      return last_report_seq < target_ || not_here ? Next::GoOn : Next::Arrived;
    case PauseStep::Checkpoint:
      return last_report_seq < target_ || not_here ? Next::GoOn : Next::Checkpoint;
    case PauseStep::Finish:
      return Next::Stop;
  }
  return Next::GoOn;
}

}  // namespace train::sdk
