#include "sdk/client/stop_gate.h"

#include <utility>

namespace train::sdk {

bool StopGate::take_over(bool at_checkpoint) {
  if (step_ == Step::Finish || at_checkpoint || !at_checkpoint_) return false;
  at_checkpoint_ = false;
  step_ = Step::None;
  return true;
}

bool StopGate::pause(bool at_checkpoint) {
  const bool took_over = take_over(at_checkpoint);
  if (step_ == Step::None) {
    step_ = Step::Pause;
    at_checkpoint_ = at_checkpoint;
  }
  return took_over;
}

bool StopGate::advance(std::uint64_t target, bool at_checkpoint) {
  const bool took_over = take_over(at_checkpoint);
  const bool late = step_ != Step::None && at_checkpoint && !at_checkpoint_;
  if (step_ == Step::Finish || late) return false;
  step_ = Step::Advance;
  at_checkpoint_ = at_checkpoint;
  target_ = target;
  return took_over;
}

void StopGate::finish(std::string reason) {
  if (step_ == Step::Finish) return;
  step_ = Step::Finish;
  at_checkpoint_ = false;
  reason_ = std::move(reason);
}

StopGate::Next StopGate::after_report(std::uint64_t last_report_seq, bool has_checkpoint) const {
  const bool not_here = at_checkpoint_ && !has_checkpoint;
  switch (step_) {
    case Step::None:
      return Next::GoOn;
    case Step::Pause:
      return not_here ? Next::GoOn : Next::Wait;
    case Step::Advance:
      return last_report_seq < target_ || not_here ? Next::GoOn : Next::Checkpoint;
    case Step::Finish:
      return Next::Stop;
  }
  return Next::GoOn;
}

}  // namespace train::sdk
