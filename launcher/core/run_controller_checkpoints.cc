// RunController's part for the checkpoints of the attempt: it passes on what CheckpointCoordinator
// decides to those concerned.
#include <fmt/format.h>

#include <utility>

#include "launcher/core/run_controller.h"
#include "lib/base/overloaded.h"

namespace train {

void RunController::on(const ShardStaged& event) {
  if (rank_of(event.attempt, event.shard.rank) == nullptr) return;
  StagedShard shard = event.shard;
  const std::optional<Quiesce>& quiesce = attempt_.quiesce;
  if (quiesce && quiesce->is_past_the_end(shard.report_seq) && shard.error.empty()) {
    shard.error = fmt::format("made at report {}, all ranks were to stop at {}", shard.report_seq,
                              quiesce->meeting());
  }
  perform(checkpoints_.staged(std::move(shard), now_));
}

void RunController::on(const CommitFinished& event) {
  if (event.checkpoint && checkpoints_.take_committed(*event.checkpoint, event.removed)) {
    add_validation(*event.checkpoint);
    policy_.on_progress();
  }
  if (current(event.attempt)) perform(checkpoints_.commit_finished(event, situation()));
}

CheckpointCoordinator::Situation RunController::situation() const {
  return {.state = state_,
          .escalated = attempt_.teardown.escalated(),
          .quiescing = attempt_.quiesce.has_value()};
}

void RunController::perform(CheckpointCoordinator::Effects effects) {
  const auto tell = [this](NodeId node, const CheckpointTracker::Outcome& outcome) {
    actions_.push_back(
        TellCheckpoint{attempt_.id, node, outcome.checkpoint_seq, outcome.path, outcome.error});
  };
  const Overloaded perform_one{
      [&](CheckpointCoordinator::Tell& effect) {
        if (effect.only_for)
          return tell(attempt_.ranks.find(*effect.only_for)->node, effect.outcome);
        attempt_.hosts.for_each_there([&](NodeId node) { tell(node, effect.outcome); });
      },
      [&](CheckpointCoordinator::BeginCommit& effect) {
        actions_.push_back(
            Commit{attempt_.id, effect.checkpoint_seq, effect.number, std::move(effect.shards)});
      },
      [&](CheckpointCoordinator::AbandonCommit& effect) {
        actions_.push_back(
            GiveUpCommit{attempt_.id, effect.checkpoint_seq, std::move(effect.reason)});
      },
      [&](CheckpointCoordinator::OutOfSpace& effect) {
        fail({.kind = FailureKind::Permanent,
              .cause = std::move(effect.cause),
              .rank = {},
              .end = {},
              .node = {},
              .start_error = {}});
      },
      [&](Note& note) { actions_.push_back(std::move(note)); },
  };
  for (CheckpointCoordinator::Effect& effect : effects) std::visit(perform_one, effect);
}

// Return whether to give up shards that supervisors may still be storing once the workers are gone:
// a user who asked twice does not wait for storage that hangs.
bool RunController::gives_up_shards() {
  const Teardown::Shards shards = attempt_.teardown.shards(!attempt_.ranks.all_ended(), now_);
  if (shards != Teardown::Shards::GivenUpNow) return shards == Teardown::Shards::GivenUp;
  note(NoteLevel::Warning,
       fmt::format("not waiting for nodes to finish writing to '{}': the run was told to stop "
                   "immediately",
                   spec_.run_config.storage_path));
  return true;
}

// Give up the restored checkpoint: its bytes differ from those that were committed. A checkpoint
// that the user named is not replaced.
bool RunController::give_up_restored(const Error& error) {
  auto effects = checkpoints_.give_up_restored(attempt_.restored, error);
  if (!effects) return false;
  perform(std::move(*effects));
  return true;
}

}  // namespace train
