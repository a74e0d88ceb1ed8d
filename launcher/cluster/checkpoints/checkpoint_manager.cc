#include "launcher/cluster/checkpoints/checkpoint_manager.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/cluster/checkpoints/checkpoint_rows.h"
#include "launcher/cluster/checkpoints/commit_request.h"
#include "lib/base/quota.h"

namespace train {

CheckpointManager::CheckpointManager(const CheckpointConfig& config, RunRecord& record)
    : policy_(retention_policy(config)),
      on_nodes_(config.replicas > 0),
      validation_(config.validation),
      record_(record) {
  const auto listed = record_.checkpoints().list();
  if (on_nodes_) remember_unread(listed);
  if (!listed) return;
  for (const ListedCheckpoint& checkpoint : *listed) {
    if (checkpoint.manifest) remember(checkpoint);
  }
  told_ = checkpoints_;
}

void CheckpointManager::remember(const ListedCheckpoint& listed) {
  const Metrics metrics = listed.metrics();
  checkpoints_.push_back({listed.number, score_of(policy_, listed.number, metrics).value});
  KnownCheckpoint known{
      {listed.number.value, listed.path, epoch_of(metrics)},
      metrics,
      std::nullopt,
      "",
      {listed.manifest->generation, listed.manifest->attempt, listed.manifest->checkpoint_seq}};
  if (listed.validation) {
    known.validation = listed.validation->status;
    known.error = listed.validation->error;
  }
  known_[listed.number] = std::move(known);
}

/// Remember what nodes must not remove although no manifest that we can read names it.
void CheckpointManager::remember_unread(const Result<std::vector<ListedCheckpoint>>& listed) {
  for (const auto& before : record_.committed_before()) {
    const bool unread =
        !listed || std::any_of(listed->begin(), listed->end(), [&](const ListedCheckpoint& one) {
          return one.number == before.first && one.manifest.has_error();
        });
    if (unread) unread_.push_back(data_name(before.second));
  }
}

RunStart CheckpointManager::with_unvalidated(RunStart start) const {
  for (const auto& [number, known] : known_)
    if (!known.validation) start.unvalidated.push_back(known.info);
  return start;
}

std::vector<KnownCheckpoint> CheckpointManager::known() const {
  std::vector<KnownCheckpoint> all;
  for (const auto& [number, known] : known_) all.push_back(known);
  return all;
}

Result<CheckpointManager::Outcome> CheckpointManager::commit(const Commit& action,
                                                             const Metrics& metrics,
                                                             const std::string& created,
                                                             const Pinned& pinned,
                                                             CommitFence* fence) {
  CheckpointStore& store = record_.checkpoints();
  const CommitRequest request =
      commit_request(action, record_.attempt_generation(action.attempt), created, metrics);
  const auto committed = store.commit(request, [&]() -> Result<Unit> {
    TRY_VOID(record_.check_owner());
    if (fence == nullptr || fence->pass()) return Unit{};
    return Error{Errc::Cancelled, "it was given up"};
  });
  if (!committed) return drop(request.pending, committed.error());
  // A node that was cut off may have continued after its attempt ended, so look each time.
  (void)store.discard_before(action.attempt);
  const Score score = score_of(policy_, request.number, metrics);
  checkpoints_.push_back({request.number, score.value});
  known_[request.number] = {
      {request.number.value, store.path_of(request.number), epoch_of(metrics)},
      metrics,
      std::nullopt,
      "",
      request.pending};
  Outcome outcome{
      {{request.number.value, store.path_of(request.number), epoch_of(metrics)}, score.value},
      {},
      {},
      {.needed = 0, .free = {}, .where = store.folder()},
      {},
      {}};
  // If checkpoints are validated, the score may come from the validation.
  if (!score.warning.empty() && validation_.every == 0) outcome.warnings.push_back(score.warning);
  came_too_late_ = fence != nullptr && fence->given_up();
  (void)remove_by(pinned, outcome.warnings);
  auto kept = checkpoints_.begin();
  for (const ScoredCheckpoint& one : told_) {
    if (kept != checkpoints_.end() && kept->number == one.number)
      ++kept;
    else
      outcome.removed.push_back(one.number.value);
  }
  told_ = checkpoints_;
  outcome.keep = keep_on_nodes(pinned);
  outcome.best = best();
  for (const ManifestFile& file : committed->files)
    if (file.nodes.empty()) outcome.space.needed += file.bytes;
  outcome.space.free = free_bytes();
  return outcome;
}

/// Drop a checkpoint whose commit failed. Return the error as the user reads it.
Error CheckpointManager::drop(const PendingCheckpoint& pending, Error error) {
  CheckpointStore& store = record_.checkpoints();
  const bool full = error.code == Errc::NoSpace && !says_over_quota(error.message);
  if (const auto free = free_bytes(); full && free)
    error.message += fmt::format(": {} bytes are free in '{}'", *free, store.folder());
  // If the run is another launcher's by now, that one may be about to commit it.
  if (record_.check_owner()) (void)store.discard(pending);
  return error;
}

std::vector<std::string> CheckpointManager::keep_on_nodes(const Pinned& pinned) const {
  std::vector<std::string> keep;
  for (CheckpointNumber number : pinned) keep.push_back(checkpoint_name(number));
  keep.insert(keep.end(), unread_.begin(), unread_.end());
  for (const auto& [number, known] : known_)
    if (on_nodes_) keep.push_back(data_name(known.made_as));
  return keep;
}

std::optional<std::string> CheckpointManager::data_on_nodes(Attempt attempt,
                                                            std::uint64_t checkpoint_seq) const {
  if (!on_nodes_) return std::nullopt;
  return data_name({record_.attempt_generation(attempt), attempt, CheckpointSeq{checkpoint_seq}});
}

/// Remove what the retention policy does not keep. Return the numbers.
std::vector<std::uint64_t> CheckpointManager::remove_by(const Pinned& pinned,
                                                        std::vector<std::string>& warnings) {
  if (came_too_late_) return {};
  std::vector<std::uint64_t> removed_numbers;
  RetentionPlan plan = plan_retention(policy_, checkpoints_, pinned);
  if (plan.remove.size() > kRemovalsMax) plan.remove.resize(kRemovalsMax);
  for (CheckpointNumber old : plan.remove) {
    if (const auto removed = record_.checkpoints().remove(old); !removed)
      warnings.push_back(removed.error().describe());
    std::erase_if(checkpoints_, [&](const ScoredCheckpoint& c) { return c.number == old; });
    known_.erase(old);
    removed_numbers.push_back(old.value);
  }
  return removed_numbers;
}

Result<CheckpointManager::Validated> CheckpointManager::validated(const ValidationRecord& record,
                                                                  const Pinned& pinned) {
  const auto found = known_.find(record.checkpoint);
  if (found == known_.end())
    return Error{Errc::NotFound, fmt::format("{} is gone", checkpoint_name(record.checkpoint))};
  TRY_VOID(record_.check_owner());  // otherwise the run belongs to another launcher
  KnownCheckpoint& known = found->second;
  TRY_VOID(write_validation(record_.checkpoint_files(), known.info.path, record));
  known.metrics = merge_metrics(known.metrics, record);
  known.validation = record.status;
  known.error = record.error;
  Validated outcome{known, {}, {}, {}};
  Score score = score_of(policy_, record.checkpoint, known.metrics);
  if (!score.warning.empty()) outcome.warnings.push_back(std::move(score.warning));
  for (ScoredCheckpoint& one : checkpoints_)
    if (one.number == record.checkpoint) one.score = score.value;
  outcome.removed = remove_by(pinned, outcome.warnings);
  outcome.best = best();
  return outcome;
}

std::optional<std::uint64_t> CheckpointManager::free_bytes() const {
  const auto free = record_.checkpoint_files().free_bytes(record_.checkpoints().folder());
  return free ? std::optional(*free) : std::nullopt;
}

KeptCheckpoint CheckpointManager::kept(const ScoredCheckpoint& checkpoint) const {
  return {{checkpoint.number.value, record_.checkpoints().path_of(checkpoint.number), -1},
          checkpoint.score};
}

std::optional<KeptCheckpoint> CheckpointManager::best() const {
  const RetentionPlan plan = plan_retention(policy_, checkpoints_);
  for (const ScoredCheckpoint& checkpoint : checkpoints_) {
    if (checkpoint.number == plan.best) return kept(checkpoint);
  }
  return std::nullopt;
}

std::optional<KeptCheckpoint> CheckpointManager::latest() const {
  const RetentionPlan plan = plan_retention(policy_, checkpoints_);
  for (const ScoredCheckpoint& checkpoint : checkpoints_) {
    if (checkpoint.number == plan.latest) return kept(checkpoint);
  }
  return std::nullopt;
}

}  // namespace train
