// RunController's part for standby processes: it orders what StandbyPool decides.
#include "launcher/core/run_controller.h"

namespace train {

void RunController::consider_standbys() {
  const auto usable = [this](NodeId node) { return !nodes_.draining(node); };
  for (const NodeId node :
       standbys_.advance(attempt_->group().ranks, attempt_->progressed(), usable, now()))
    ask_standby(node);
}

bool RunController::stands_by(Attempt attempt, NodeId node) const {
  return attempt == next_attempt_ && standbys_.waiting_on(node) > 0;
}

void RunController::ask_standby(NodeId node) {
  Prepare prepare{next_attempt_, attempt_->group().hosts.placed(node)};
  prepare.standby = true;
  progress_.add(prepare);
}

void RunController::release_standby(NodeId node) {
  if (standbys_.forget(node)) progress_.add(Release{next_attempt_, node});
}

void RunController::tell_of_useless_standbys() {
  if (attempt_->cause().failed() || !standbys_.was_useless(attempt_->group().ranks)) return;
  progress_.note(
      NoteLevel::Warning,
      "standby_workers had no effect: only programs that use the SDK can wait for a rank, and no "
      "worker has called it");
}

}  // namespace train
