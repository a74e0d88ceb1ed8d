#include "launcher/core/run_progress.h"

namespace train {

void RunProgress::change_state(RunTrigger trigger, Attempt attempt, std::string reason,
                               Duration wait) {
  const RunState from = state_;
  state_ = next_state(from, trigger);
  const bool condition = !facts(state_).terminal && stop_ && !stop_requested();
  StateChanged change{
      from, state_, trigger, attempt, std::move(reason), condition ? stop_->reason : "", wait};
  if (state_ == RunState::Stopped && stop_) change.stop = stop_->kind;
  add(std::move(change));
}

}  // namespace train
