#include "launcher/core/checkpoint_tracker.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/collective_tracker.h"

namespace train {

CheckpointTracker CheckpointTracker::adopted(int world_size, std::uint64_t resolved,
                                             const std::string& path) {
  CheckpointTracker tracker(world_size);
  tracker.resolved_ = resolved;
  if (resolved > 0) tracker.remember({resolved, path, ""});
  return tracker;
}

std::optional<CheckpointTracker::Outcome> CheckpointTracker::add(StagedShard shard, TimePoint now) {
  if (shard.checkpoint_seq <= resolved_) {
    if (committing_ == shard.checkpoint_seq) return std::nullopt;  // all ranks will be told soon
    const auto known = outcomes_.find(shard.checkpoint_seq);
    return known != outcomes_.end() ? known->second
                                    : Outcome{shard.checkpoint_seq, "", "it was resolved before"};
  }
  Waiting& waiting =
      waiting_.try_emplace(shard.checkpoint_seq, Waiting{{}, now, false}).first->second;
  waiting.shards.insert_or_assign(shard.rank, std::move(shard));
  return std::nullopt;
}

std::vector<CheckpointTracker::Outcome> CheckpointTracker::resolved_before(
    std::uint64_t checkpoint_seq) {
  std::vector<Outcome> unheard;
  while (!waiting_.empty() && waiting_.begin()->first <= checkpoint_seq) {
    unheard.push_back({waiting_.begin()->first, "", "an earlier launcher gave it up"});
    waiting_.erase(waiting_.begin());
  }
  resolved_ = std::max(resolved_, checkpoint_seq);
  return unheard;
}

std::optional<CheckpointTracker::Ready> CheckpointTracker::take_ready() {
  if (committing_ || waiting_.empty()) return std::nullopt;
  const auto first = waiting_.begin();
  if (first->first != resolved_ + 1) return std::nullopt;  // an earlier one has yet to arrive
  if (static_cast<int>(first->second.shards.size()) < world_size_) return std::nullopt;
  Ready ready{first->first, {}, {}, false};
  for (auto& [rank, shard] : first->second.shards) {
    const bool says_more = ready.error.empty() || (shard.no_space && !ready.no_space);
    if (!shard.error.empty() && says_more) {
      ready.error = fmt::format("rank {}: {}", rank.value, shard.error);
      ready.no_space = shard.no_space;
    }
    ready.shards.push_back(std::move(shard));
  }
  resolved_ = ready.checkpoint_seq;
  waiting_.erase(first);
  if (ready.error.empty())
    committing_ = ready.checkpoint_seq;
  else
    remember({ready.checkpoint_seq, "", ready.error});
  return ready;
}

bool CheckpointTracker::commit_finished(Outcome outcome) {
  if (committing_ != outcome.checkpoint_seq) return false;
  committing_.reset();
  remember(std::move(outcome));
  return true;
}

void CheckpointTracker::remember(Outcome outcome) {
  outcomes_[outcome.checkpoint_seq] = std::move(outcome);
  if (outcomes_.size() > kOutcomesKept) outcomes_.erase(outcomes_.begin());
}

std::vector<std::string> CheckpointTracker::overdue(TimePoint now) {
  std::vector<std::string> texts;
  for (auto& [checkpoint_seq, waiting] : waiting_) {
    if (waiting.warned || now - waiting.since < kShardWarnAfter) continue;
    waiting.warned = true;
    std::vector<Rank> missing;
    for (int rank = 0; rank < world_size_; ++rank) {
      if (waiting.shards.count(Rank{rank}) == 0) missing.push_back(Rank{rank});
    }
    texts.push_back(
        fmt::format("checkpoint {} of this attempt lacks the shards of {} after {}; every rank "
                    "must report the same number of checkpoints",
                    checkpoint_seq, list_ranks(missing), format_duration(now - waiting.since)));
  }
  return texts;
}

std::optional<TimePoint> CheckpointTracker::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [checkpoint_seq, waiting] : waiting_) {
    if (waiting.warned) continue;
    const TimePoint due = waiting.since + kShardWarnAfter;
    if (!next || due < *next) next = due;
  }
  return next;
}

}  // namespace train
