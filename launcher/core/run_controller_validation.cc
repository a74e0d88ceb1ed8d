// RunController's part for the validation of checkpoints. Validation runs while the group trains,
// and after the group's good end until no checkpoint is left, on the node of rank 0 or, if that is
// lost, on the next one. If an attempt ends during a validation, the next attempt begins it again.
#include <fmt/format.h>

#include "launcher/core/run_controller.h"

namespace train {

void RunController::on(const ValidationFinished& event) {
  validations_.finished(event.number);
  checkpoints_.forget(event.removed);
}

void RunController::add_validation(const CheckpointInfo& checkpoint) {
  const auto given_up = validations_.add(checkpoint);
  if (!given_up) return;
  progress_.note(NoteLevel::Warning,
                 fmt::format("checkpoint_{:06} is not validated: {} newer ones are already waiting "
                             "(raise checkpoint_config.validation.every)",
                             given_up->number, kValidationsWaitingMax));
}

// Return the node that validates. Its supervisor stays until it is released, even without workers.
std::optional<NodeId> RunController::validation_host() const {
  for (const PlacedNode& placed : attempt_->group().placement.nodes) {
    if (attempt_->is_supervised(placed.node)) return placed.node;
  }
  return std::nullopt;
}

void RunController::advance_validations() {
  const auto node = validation_host();
  if (!node) return;
  if (const auto next = validations_.begin(*node)) progress_.add(Validate{attempt(), *node, *next});
}

bool RunController::waits_for_validations() {
  if (validations_.idle() || !ends_well()) return false;
  const std::size_t left = validations_.unfinished().size();
  if (!validation_host()) {
    progress_.note(NoteLevel::Warning,
                   fmt::format("{} {} not validated: no supervisor of the run is left", left,
                               left == 1 ? "checkpoint was" : "checkpoints were"));
    return false;
  }
  advance_validations();
  if (!validations_.says_waiting()) return true;
  progress_.note(NoteLevel::Info,
                 fmt::format("the training has ended; waiting for the validation of {} {}", left,
                             left == 1 ? "checkpoint" : "checkpoints"));
  return true;
}

// Order the validation again. The order may be given twice: a supervisor knows what it is
// validating.
void RunController::validate_again(NodeId node) {
  if (const CheckpointInfo* running = validations_.running_on(node))
    progress_.add(Validate{attempt(), node, *running});
}

}  // namespace train
