// RunController's part for standby processes: it asks nodes for what StandbyPool decides.
#include "launcher/core/run_controller.h"

namespace train {

void RunController::consider_standbys() {
  const auto usable = [this](NodeId node) { return !nodes_.draining(node); };
  for (const NodeId node : standbys_.advance(attempt_.ranks, attempt_.progressed, usable, now_))
    ask_standby(node);
}

bool RunController::stands_by(Attempt attempt, NodeId node) const {
  return attempt == next_attempt_ && standbys_.waiting_on(node) > 0;
}

void RunController::ask_standby(NodeId node) {
  Prepare prepare{next_attempt_, attempt_.hosts.placed(node)};
  prepare.standby = true;
  actions_.push_back(prepare);
}

void RunController::release_standby(NodeId node) {
  if (standbys_.forget(node)) actions_.push_back(Release{next_attempt_, node});
}

void RunController::tell_of_useless_standbys() {
  if (attempt_.cause.failure || !standbys_.was_useless(attempt_.ranks)) return;
  note(NoteLevel::Warning,
       "standby_workers had no effect: only programs that use the SDK can wait for a rank, and no "
       "worker has called it");
}

}  // namespace train
