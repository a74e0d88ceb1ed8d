#include "sdk/client/stop_gate.h"

#include <utility>

namespace train::sdk {

void StopGate::pause() {
  if (step_ == Step::None) step_ = Step::Pause;
}

void StopGate::advance(std::uint64_t target) {
  if (step_ == Step::Finish) return;
  step_ = Step::Advance;
  target_ = target;
}

void StopGate::finish(std::string reason) {
  if (step_ == Step::Finish) return;
  step_ = Step::Finish;
  reason_ = std::move(reason);
}

StopGate::Next StopGate::after_report(std::uint64_t last_ordinal) const {
  switch (step_) {
    case Step::None:
      return Next::GoOn;
    case Step::Pause:
      return Next::Wait;
    case Step::Advance:
      return last_ordinal < target_ ? Next::GoOn : Next::Checkpoint;
    case Step::Finish:
      return Next::Stop;
  }
  return Next::GoOn;
}

}  // namespace train::sdk
