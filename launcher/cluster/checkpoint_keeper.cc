#include "launcher/cluster/checkpoint_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/cluster/checkpoint_rows.h"
#include "launcher/cluster/start_frames.h"

namespace train {

CheckpointKeeper::CheckpointKeeper(const CheckpointConfig& config, RunRecord& record)
    : policy_(retention_policy(config)), record_(record) {
  const auto listed = record_.checkpoints().list();
  if (!listed) return;
  for (const ListedCheckpoint& checkpoint : *listed) {
    if (checkpoint.manifest)
      checkpoints_.push_back(
          {checkpoint.number,
           score_of(policy_, checkpoint.number, checkpoint.manifest->metrics).value});
  }
}

Result<CheckpointKeeper::Outcome> CheckpointKeeper::commit(const Commit& action,
                                                           const Metrics& metrics,
                                                           const std::string& created) {
  CheckpointStore& store = record_.checkpoints();
  const CommitRequest request =
      commit_request(action, record_.attempt_epoch(action.attempt), created, metrics);
  const auto committed = store.commit(request, [this] { return record_.lock().check(); });
  if (!committed) {
    Error error = committed.error();
    if (const auto free = free_bytes(); error.code == Errc::NoSpace && free)
      error.message += fmt::format(": {} bytes are free in '{}'", *free, store.folder());
    (void)store.discard(request.pending);
    return error;
  }
  // A node that was cut off may have gone on after its attempt had ended: look each time.
  (void)store.discard_before(action.attempt);
  const Score score = score_of(policy_, request.number, metrics);
  checkpoints_.push_back({request.number, score.value});
  Outcome outcome{
      {{request.number.value, store.path_of(request.number), epoch_of(metrics)}, score.value},
      {},
      {},
      {.needed = 0, .free = {}, .where = store.folder()}};
  if (!score.warning.empty()) outcome.warnings.push_back(score.warning);

  RetentionPlan plan = plan_retention(policy_, checkpoints_);
  if (plan.remove.size() > kRemovalsMax) plan.remove.resize(kRemovalsMax);
  for (CheckpointNumber old : plan.remove) {
    if (const auto removed = store.remove(old); !removed)
      outcome.warnings.push_back(removed.error().describe());
    std::erase_if(checkpoints_, [&](const ScoredCheckpoint& c) { return c.number == old; });
  }
  outcome.best = best();
  for (const ManifestFile& file : committed->files) outcome.room.needed += file.bytes;
  outcome.room.free = free_bytes();
  return outcome;
}

std::optional<std::uint64_t> CheckpointKeeper::free_bytes() const {
  const auto free = record_.files().free_bytes(record_.checkpoints().folder());
  return free ? std::optional(*free) : std::nullopt;
}

KeptCheckpoint CheckpointKeeper::kept(const ScoredCheckpoint& checkpoint) const {
  return {{checkpoint.number.value, record_.checkpoints().path_of(checkpoint.number), -1},
          checkpoint.score};
}

std::optional<KeptCheckpoint> CheckpointKeeper::best() const {
  const RetentionPlan plan = plan_retention(policy_, checkpoints_);
  for (const ScoredCheckpoint& checkpoint : checkpoints_) {
    if (checkpoint.number == plan.best) return kept(checkpoint);
  }
  return std::nullopt;
}

std::optional<KeptCheckpoint> CheckpointKeeper::latest() const {
  const RetentionPlan plan = plan_retention(policy_, checkpoints_);
  for (const ScoredCheckpoint& checkpoint : checkpoints_) {
    if (checkpoint.number == plan.latest) return kept(checkpoint);
  }
  return std::nullopt;
}

}  // namespace train
