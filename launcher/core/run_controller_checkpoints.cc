// The checkpoints of the attempt: parts come in, whole ones are committed, and what cannot be
// stored is given up.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/core/run_controller.h"

namespace train {

void RunController::on(const PartStaged& event) {
  const RankTable::Entry* rank = rank_of(event.attempt, event.part.rank);
  if (rank == nullptr) return;
  PartOfCheckpoint part = event.part;
  const std::optional<Quiesce>& quiesce = attempt_.quiesce;
  if (quiesce && quiesce->is_past_the_end(part.report_ordinal) && part.error.empty()) {
    part.error = fmt::format("made at report {}, all ranks were to stop at {}", part.report_ordinal,
                             quiesce->meeting());
  }
  if (const auto settled = attempt_.checkpoints.add(std::move(part), now_)) {
    actions_.push_back(
        TellCheckpoint{attempt_.id, rank->node, settled->index, settled->path, settled->error});
  }
}

void RunController::advance_checkpoints() {
  while (auto ready = attempt_.checkpoints.take_ready()) {
    if (const std::string mixed = mixed_reports(ready->parts);
        ready->error.empty() && !mixed.empty()) {
      attempt_.checkpoints.commit_finished({ready->index, "", mixed});
      give_up_checkpoint({ready->index, "", mixed}, false);
      continue;
    }
    if (ready->error.empty()) {
      attempt_.commit = CommitUnderWay{.index = ready->index, .since = now_};
      actions_.push_back(
          Commit{attempt_.id, ready->index, ++last_checkpoint_number_, std::move(ready->parts)});
      return;
    }
    give_up_checkpoint({ready->index, "", ready->error}, ready->no_space);
  }
}

// Once ranks were asked to stop, the k-th checkpoint of one may be what its on_stop function made,
// and of another what it would have made anyhow, at another report.
std::string RunController::mixed_reports(const std::vector<PartOfCheckpoint>& parts) const {
  if (!attempt_.quiesce) return "";
  for (const PartOfCheckpoint& part : parts) {
    if (part.report_ordinal == parts.front().report_ordinal) continue;
    return fmt::format("rank {} made it at report {}, rank {} at report {}",
                       parts.front().rank.value, parts.front().report_ordinal, part.rank.value,
                       part.report_ordinal);
  }
  return "";
}

void RunController::tell_checkpoint(const CheckpointLedger::Outcome& outcome) {
  for_each_reachable_host([&](NodeId node) {
    actions_.push_back(
        TellCheckpoint{attempt_.id, node, outcome.index, outcome.path, outcome.error});
  });
}

void RunController::on(const CommitFinished& event) {
  if (event.checkpoint) take_committed(*event.checkpoint, event.removed);
  if (!current(event.attempt)) return;
  const CheckpointLedger::Outcome outcome{
      event.index, event.checkpoint ? event.checkpoint->path : "", event.error};
  if (!attempt_.checkpoints.commit_finished(outcome)) return;
  attempt_.commit.reset();
  if (!event.checkpoint) return give_up_checkpoint(outcome, event.no_space, event.may_come);
  tell_checkpoint(outcome);
  without_space_ = 0;
  warn_of_little_room(event.room);
}

// Also of one that was given up, and came to be committed all the same.
void RunController::take_committed(const CheckpointInfo& checkpoint,
                                   const std::vector<std::uint64_t>& removed) {
  if (newest_ && newest_->number >= checkpoint.number) return;  // it was said before
  if (newest_ && newest_->number > 0) older_.push_back(*newest_);
  newest_ = checkpoint;
  add_validation(checkpoint);
  std::erase_if(older_, [&](const CheckpointInfo& old) {
    return std::count(removed.begin(), removed.end(), old.number) != 0;
  });
  policy_.on_progress();
}

// For want of space: not for ever, for a run that stores nothing loses everything with its first
// failure.
void RunController::give_up_checkpoint(const CheckpointLedger::Outcome& outcome, bool no_space,
                                       bool may_come) {
  without_space_ = no_space ? without_space_ + 1 : 0;
  const bool enough = without_space_ >= kWithoutSpaceMax && state_ == RunState::Running;
  const bool goes_on = !enough && state_ == RunState::Running;
  note(NoteLevel::Warning, fmt::format("checkpoint {} of attempt {} {} kept: {}{}", outcome.index,
                                       attempt_.id.value, may_come ? "may not be" : "is not",
                                       outcome.error, goes_on ? "; training goes on" : ""));
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

// ---- a commit that takes long

void RunController::await_commit() {
  CommitUnderWay& commit = *attempt_.commit;
  if (!commit.awaited_since) commit.awaited_since = now_;
}

TimePoint RunController::commit_warn_at() const {
  const Duration limit = spec_.run_config.checkpoint_config.upload_timeout;
  return attempt_.commit->since + std::min<Duration>(kCommitWarnAfter, limit / 2);
}

void RunController::watch_commit() {
  if (!attempt_.commit || attempt_.commit->given_up) return;
  CommitUnderWay& commit = *attempt_.commit;
  const RunConfig& config = spec_.run_config;
  const Duration limit = config.checkpoint_config.upload_timeout;
  const std::string so_far = format_duration(now_ - commit.since);
  const bool awaited = commit.awaited_since && now_ >= *commit.awaited_since + kStoragePatience;
  if (now_ >= commit.since + limit)
    return give_up_commit(
        fmt::format("'{}' did not answer within {} (checkpoint_config."
                    "upload_timeout is how long we wait)",
                    config.storage_path, format_duration(limit)));
  if (awaited && attempt_.hurried && state_ == RunState::TearingDown)
    return give_up_commit(
        fmt::format("'{}' had not answered for {} when the run was to stop at "
                    "once",
                    config.storage_path, so_far));
  const std::string name =
      fmt::format("checkpoint {} of attempt {}", commit.index, attempt_.id.value);
  if (!commit.warned && now_ >= commit_warn_at()) {
    commit.warned = true;
    note(NoteLevel::Warning,
         fmt::format("{} is not committed for {}: '{}' does not answer{}", name, so_far,
                     config.storage_path,
                     state_ == RunState::Running
                         ? "; training goes on until the second one after it is due"
                         : ""));
  }
  if (!awaited || commit.wait_said_in == state_) return;
  commit.wait_said_in = state_;
  note(NoteLevel::Info, fmt::format("waiting at most {} for {} to be committed{}",
                                    format_duration(commit.since + limit - now_), name,
                                    state_ == RunState::TearingDown ? "; Ctrl-C gives it up" : ""));
}

// What the shell answers says whether it may come to be committed all the same.
void RunController::give_up_commit(std::string reason) {
  attempt_.commit->given_up = true;
  actions_.push_back(GiveUpCommit{attempt_.id, attempt_.commit->index, std::move(reason)});
}

// The workers are gone, but not their supervisors: they may be storing parts, and one who asked
// twice does not wait for storage that hangs.
bool RunController::gives_up_parts() {
  if (!attempt_.hurried || !attempt_.ranks.all_ended()) return false;
  if (!attempt_.parts_awaited_since) attempt_.parts_awaited_since = now_;
  if (now_ < *attempt_.parts_awaited_since + kPartsPatience) return false;
  if (std::exchange(attempt_.parts_given_up, true)) return true;
  note(NoteLevel::Warning,
       fmt::format("what nodes have still to store in '{}' is not waited for: the run was to stop "
                   "at once",
                   spec_.run_config.storage_path));
  return true;
}

std::optional<TimePoint> RunController::commit_deadline() const {
  if (!attempt_.commit || attempt_.commit->given_up) return std::nullopt;
  const CommitUnderWay& commit = *attempt_.commit;
  TimePoint next = commit.since + spec_.run_config.checkpoint_config.upload_timeout;
  if (!commit.warned) next = std::min(next, commit_warn_at());
  if (commit.awaited_since && commit.wait_said_in != state_)
    next = std::min(next, *commit.awaited_since + kStoragePatience);
  return next;
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
