// The checkpoints of the attempt: parts come in, whole ones are committed, and what cannot be
// stored is given up.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/core/run_controller.h"

namespace train {

void RunController::on(const PartStaged& event) {
  const Member* member = member_of(event.attempt, event.part.rank);
  if (member == nullptr) return;
  PartOfCheckpoint part = event.part;
  const PauseProgress& pause = attempt_.pause;
  const bool meeting_is_known =
      pause.step == PauseProgress::Step::Finish ||
      (pause.step == PauseProgress::Step::Advance && !pause.at_checkpoint);
  const bool past_the_end = meeting_is_known && part.report_ordinal > pause.ordinal;
  if (past_the_end && part.error.empty()) {
    part.error = fmt::format("made at report {}, all ranks were to stop at {}", part.report_ordinal,
                             attempt_.pause.ordinal);
  }
  if (const auto settled = attempt_.checkpoints.add(std::move(part), now_)) {
    actions_.push_back(
        TellCheckpoint{attempt_.id, member->node, settled->index, settled->path, settled->error});
  }
}

void RunController::advance_checkpoints() {
  while (auto ready = attempt_.checkpoints.take_ready()) {
    if (ready->error.empty()) {
      actions_.push_back(
          Commit{attempt_.id, ready->index, ++last_checkpoint_number_, std::move(ready->parts)});
      return;
    }
    give_up_checkpoint({ready->index, "", ready->error}, ready->no_space);
  }
}

void RunController::tell_checkpoint(const CheckpointLedger::Outcome& outcome) {
  for_each_reachable_host([&](NodeId node) {
    actions_.push_back(
        TellCheckpoint{attempt_.id, node, outcome.index, outcome.path, outcome.error});
  });
}

void RunController::on(const CommitFinished& event) {
  if (!current(event.attempt)) return;
  const CheckpointLedger::Outcome outcome{
      event.index, event.checkpoint ? event.checkpoint->path : "", event.error};
  if (!attempt_.checkpoints.commit_finished(outcome)) return;
  if (!event.checkpoint) return give_up_checkpoint(outcome, event.no_space);
  if (newest_ && newest_->number > 0) older_.push_back(*newest_);
  newest_ = event.checkpoint;
  add_validation(*event.checkpoint);
  std::erase_if(older_, [&](const CheckpointInfo& old) {
    return std::count(event.removed.begin(), event.removed.end(), old.number) != 0;
  });
  policy_.on_progress();
  node_failures_.clear();
  tell_checkpoint(outcome);
  without_space_ = 0;
  warn_of_little_room(event.room);
}

// For want of space: not for ever, for a run that stores nothing loses everything with its first
// failure.
void RunController::give_up_checkpoint(const CheckpointLedger::Outcome& outcome, bool no_space) {
  without_space_ = no_space ? without_space_ + 1 : 0;
  const bool enough = without_space_ >= kWithoutSpaceMax && state_ == RunState::Running;
  note(NoteLevel::Warning,
       fmt::format("checkpoint {} of attempt {} is not kept: {}{}", outcome.index,
                   attempt_.id.value, outcome.error, enough ? "" : "; training goes on"));
  tell_checkpoint(outcome);
  if (!enough) return;
  fail(
      {.kind = FailureKind::Permanent,
       .cause = fmt::format("{} checkpoints in a row were not kept for want of space; the last: {}",
                            without_space_, outcome.error),
       .rank = {},
       .end = {},
       .node = {},
       .start_error = {}});
}

// Its bytes are others than those that were committed. One that the user named is not replaced.
bool RunController::give_up_restored(const Error& error) {
  if (error.code != Errc::Corrupt || !attempt_.restored || attempt_.restored->number == 0)
    return false;
  if (newest_ != attempt_.restored) return true;  // another node has said so
  newest_ = older_.empty() ? std::nullopt : std::optional(older_.back());
  if (!older_.empty()) older_.pop_back();
  const auto name = [](const CheckpointInfo& checkpoint) {
    return checkpoint.path.substr(checkpoint.path.rfind('/') + 1);
  };
  note(NoteLevel::Warning, fmt::format("skipping {}, which is not whole: {}; going on from {}",
                                       name(*attempt_.restored), error.message,
                                       newest_ ? name(*newest_) : "the beginning"));
  return true;
}

void RunController::warn_of_little_room(const StorageRoom& room) {
  const bool little = room.free && *room.free < room.needed;
  if (little && !little_room_)
    note(NoteLevel::Warning,
         fmt::format("the next checkpoint may not fit: the last one has {} bytes, {} are free in "
                     "'{}' (free some space, or lower checkpoint_config.num_to_keep)",
                     room.needed, *room.free, room.where));
  little_room_ = little;
}

}  // namespace train
