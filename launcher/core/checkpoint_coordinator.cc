#include "launcher/core/checkpoint_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {
namespace {

Note warning(std::string text) { return {NoteLevel::Warning, std::move(text)}; }

// Return an error if the shards are from different reports. Once ranks were asked to stop, the k-th
// checkpoint of one rank may come from its on_stop function, while that of another is one that it
// would have made anyway, at another report.
std::string mixed_reports(const std::vector<StagedShard>& shards) {
  for (const StagedShard& shard : shards) {
    if (shard.report_seq == shards.front().report_seq) continue;
    return fmt::format("rank {} made it at report {}, rank {} at report {}",
                       shards.front().rank.value, shards.front().report_seq, shard.rank.value,
                       shard.report_seq);
  }
  return "";
}

// Return an error if some ranks made it because somebody had asked for it, and others did not:
// their shards are of different steps.
std::string mixed_requests(const std::vector<StagedShard>& shards, std::uint64_t checkpoint_seq) {
  for (const StagedShard& shard : shards) {
    if (shard.request == shards.front().request) continue;
    const StagedShard& asked = shard.request != 0 ? shard : shards.front();
    const StagedShard& other = shard.request != 0 ? shards.front() : shard;
    return fmt::format(
        "rank {} made checkpoint {} because it was asked for, rank {} did not, so the ranks' "
        "checkpoints of this attempt do not belong together any more",
        asked.rank.value, checkpoint_seq, other.rank.value);
  }
  return "";
}

void append(CheckpointCoordinator::Effects& effects, CheckpointCoordinator::Effects more) {
  for (CheckpointCoordinator::Effect& effect : more) effects.push_back(std::move(effect));
}

}  // namespace

// ---- shards

void CheckpointCoordinator::begin_attempt(Attempt attempt, int world_size) {
  attempt_ = attempt;
  tracker_ = CheckpointTracker(world_size);
  commit_.reset();
  mixed_since_.clear();
}

void CheckpointCoordinator::adopt_attempt(const LivingAttempt& living) {
  attempt_ = living.id;
  tracker_ = CheckpointTracker::adopted(living.placement.world_size, living.resolved_seq,
                                        living.resolved_path);
  commit_.reset();
  mixed_since_.clear();
}

CheckpointCoordinator::Effects CheckpointCoordinator::staged(StagedShard shard, TimePoint now) {
  const Rank rank = shard.rank;
  const auto resolved = tracker_.add(std::move(shard), now);
  if (!resolved) return {};
  return {Tell{*resolved, rank}};
}

CheckpointCoordinator::Effects CheckpointCoordinator::resolved_before(
    std::uint64_t checkpoint_seq) {
  Effects effects;
  for (CheckpointTracker::Outcome& outcome : tracker_.resolved_before(checkpoint_seq))
    effects.push_back(Tell{std::move(outcome)});
  return effects;
}

CheckpointCoordinator::Effects CheckpointCoordinator::advance(const Situation& situation,
                                                              TimePoint now) {
  Effects effects;
  while (auto ready = tracker_.take_ready()) {
    if (!ready->error.empty()) {
      append(effects,
             give_up({ready->checkpoint_seq, "", ready->error}, ready->no_space, false, situation));
      if (std::holds_alternative<OutOfSpace>(effects.back())) break;
      continue;
    }
    // A rank that made none when asked, and goes on, is one checkpoint behind the others for good:
    // all later ones of the attempt would be mixed too, and nothing else would show it.
    if (mixed_since_.empty()) mixed_since_ = mixed_requests(ready->shards, ready->checkpoint_seq);
    std::string mixed = mixed_since_;
    if (mixed.empty() && situation.quiescing) mixed = mixed_reports(ready->shards);
    if (!mixed.empty()) {
      tracker_.commit_finished({ready->checkpoint_seq, "", mixed});
      append(effects, give_up({ready->checkpoint_seq, "", mixed}, false, false, situation));
      continue;
    }
    commit_ = CommitUnderWay{.checkpoint_seq = ready->checkpoint_seq, .since = now};
    effects.push_back(BeginCommit{ready->checkpoint_seq, ++last_number_, std::move(ready->shards)});
    break;
  }
  return effects;
}

// ---- outcomes

CheckpointCoordinator::Effects CheckpointCoordinator::commit_finished(const CommitFinished& event,
                                                                      const Situation& situation) {
  const CheckpointTracker::Outcome outcome{
      event.checkpoint_seq, event.checkpoint ? event.checkpoint->path : "", event.error};
  if (!tracker_.commit_finished(outcome)) return {};
  commit_.reset();
  if (!event.checkpoint) return give_up(outcome, event.no_space, event.may_come, situation);
  without_space_ = 0;
  Effects effects{Tell{outcome}};
  if (auto note = little_space(event.space)) effects.push_back(std::move(*note));
  return effects;
}

// Give up a checkpoint. For lack of space, this must not continue forever: a run that stores
// nothing loses everything at its first failure.
CheckpointCoordinator::Effects CheckpointCoordinator::give_up(
    const CheckpointTracker::Outcome& outcome, bool no_space, bool may_come,
    const Situation& situation) {
  without_space_ = no_space ? without_space_ + 1 : 0;
  const bool running = situation.state == RunState::Running;
  const bool enough = without_space_ >= kWithoutSpaceMax && running;
  const bool goes_on = !enough && running;
  Effects effects{
      warning(fmt::format("checkpoint {} of attempt {} {} kept: {}{}", outcome.checkpoint_seq,
                          attempt_.value, may_come ? "may not be" : "is not", outcome.error,
                          goes_on ? "; training continues" : "")),
      Tell{outcome}};
  if (enough) {
    effects.push_back(OutOfSpace{
        fmt::format("{} checkpoints in a row were not kept for lack of space; the last: {}",
                    without_space_, outcome.error)});
  }
  return effects;
}

bool CheckpointCoordinator::take_committed(const CheckpointInfo& checkpoint,
                                           const std::vector<std::uint64_t>& removed) {
  if (newest_ && newest_->number >= checkpoint.number) return false;
  if (newest_) older_.push_back(*newest_);
  newest_ = checkpoint;
  forget(removed);
  return true;
}

void CheckpointCoordinator::forget(const std::vector<std::uint64_t>& removed) {
  std::erase_if(older_, [&](const CheckpointInfo& old) {
    return std::count(removed.begin(), removed.end(), old.number) != 0;
  });
}

std::optional<CheckpointCoordinator::Effects> CheckpointCoordinator::give_up_restored(
    const std::optional<CheckpointInfo>& restored, const Error& error) {
  if (error.code != Errc::Corrupt || !restored || restored->number == 0) return std::nullopt;
  if (newest_ != restored) return Effects{};  // another node has already reported this
  newest_ = older_.empty() ? std::nullopt : std::optional(older_.back());
  if (!older_.empty()) older_.pop_back();
  const auto name = [](const CheckpointInfo& checkpoint) {
    return checkpoint.path.substr(checkpoint.path.rfind('/') + 1);
  };
  return Effects{warning(fmt::format("skipping {}, which is not intact: {}; continuing from {}",
                                     name(*restored), error.message,
                                     newest_ ? name(*newest_) : "the beginning"))};
}

std::optional<Note> CheckpointCoordinator::little_space(const FreeSpace& space) {
  const bool little = space.free && *space.free < space.needed;
  const bool known = std::exchange(little_space_, little);
  if (!little || known) return std::nullopt;
  return warning(
      fmt::format("the next checkpoint may not fit: the last one has {} bytes, {} are free in "
                  "'{}' (free some space, or lower checkpoint_config.num_to_keep)",
                  space.needed, *space.free, space.where));
}

// ---- a commit that takes long

void CheckpointCoordinator::await_commit(TimePoint now) {
  if (!commit_->awaited_since) commit_->awaited_since = now;
}

TimePoint CheckpointCoordinator::commit_warn_at() const {
  return commit_->since + std::min<Duration>(kCommitWarnAfter, upload_timeout_ / 2);
}

CheckpointCoordinator::Effects CheckpointCoordinator::watch(const Situation& situation,
                                                            TimePoint now) {
  Effects effects;
  watch_commit(effects, situation, now);
  for (std::string& text : tracker_.overdue(now)) effects.push_back(warning(std::move(text)));
  return effects;
}

void CheckpointCoordinator::watch_commit(Effects& effects, const Situation& situation,
                                         TimePoint now) {
  if (!commit_ || commit_->given_up) return;
  CommitUnderWay& commit = *commit_;
  const std::string so_far = format_duration(now - commit.since);
  const bool awaited = commit.awaited_since && now >= *commit.awaited_since + kStorageTimeout;
  const bool tearing_down = situation.state == RunState::TearingDown;
  const auto give_up_commit = [&](std::string reason) {
    commit.given_up = true;
    effects.push_back(AbandonCommit{commit.checkpoint_seq, std::move(reason)});
  };
  if (now >= commit.since + upload_timeout_)
    return give_up_commit(
        fmt::format("'{}' did not answer within {} (the limit is checkpoint_config.upload_timeout)",
                    storage_path_, format_duration(upload_timeout_)));
  if (awaited && situation.escalated && tearing_down)
    return give_up_commit(
        fmt::format("'{}' had not answered for {} when the run was told to stop immediately",
                    storage_path_, so_far));
  const std::string name =
      fmt::format("checkpoint {} of attempt {}", commit.checkpoint_seq, attempt_.value);
  if (!commit.warned && now >= commit_warn_at()) {
    commit.warned = true;
    effects.push_back(warning(fmt::format(
        "{} is not committed for {}: '{}' does not answer{}", name, so_far, storage_path_,
        situation.state == RunState::Running
            ? "; training continues until the second checkpoint after it is due"
            : "")));
  }
  if (!awaited || commit.wait_said_in == situation.state) return;
  commit.wait_said_in = situation.state;
  effects.push_back(
      Note{NoteLevel::Info, fmt::format("waiting at most {} for {} to be committed{}",
                                        format_duration(commit.since + upload_timeout_ - now), name,
                                        tearing_down ? "; Ctrl-C gives it up" : "")});
}

std::optional<TimePoint> CheckpointCoordinator::next_deadline(RunState state) const {
  std::optional<TimePoint> next = tracker_.next_deadline();
  const auto consider = [&](TimePoint at) {
    if (!next || at < *next) next = at;
  };
  if (!commit_ || commit_->given_up) return next;
  consider(commit_->since + upload_timeout_);
  if (!commit_->warned) consider(commit_warn_at());
  if (commit_->awaited_since && commit_->wait_said_in != state)
    consider(*commit_->awaited_since + kStorageTimeout);
  return next;
}

}  // namespace train
