// Commits checkpoints and removes those that need not be kept. Runs on the disk thread: it takes
// one call at a time, and its calls block.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/cluster/run/run_record.h"
#include "launcher/core/run_events.h"
#include "lib/storage/retention.h"

namespace train {

/// The most removals after one commit, since each costs a sync. If num_to_keep was lowered, later
/// commits remove the rest.
inline constexpr std::size_t kRemovalsMax = 32;

struct KeptCheckpoint {
  CheckpointInfo info;
  std::optional<double> score;
};

/// What is known about a kept checkpoint.
struct KnownCheckpoint {
  CheckpointInfo info;
  Metrics metrics;  // the reported ones, overridden by those of its validation
  std::optional<ValidationStatus> validation;
  std::string error;  // why its validation gave no metrics
  PendingCheckpoint made_as = {};
};

/// Settles whether a commit or the decision to give it up came first. Each comes from a thread of
/// its own.
class CommitFence {
 public:
  /// Pass, as the last step before the checkpoint appears. Return false if the commit was given up:
  /// the checkpoint must not appear.
  bool pass() { return decide(State::Passed); }
  /// Give the commit up. Return false if the checkpoint may still appear.
  bool close() {
    given_up_ = true;
    return decide(State::Closed);
  }
  /// Return whether the commit was given up, even if it was too late.
  bool given_up() const { return given_up_; }

 private:
  enum class State { Open, Passed, Closed };
  bool decide(State wanted) {
    State found = State::Open;
    return state_.compare_exchange_strong(found, wanted) || found == wanted;
  }
  std::atomic<State> state_{State::Open};
  std::atomic<bool> given_up_ = false;
};

class CheckpointManager {
 public:
  /// Checkpoints that are not validated yet. They are kept, whatever the retention policy says.
  using Pinned = std::set<CheckpointNumber>;

  CheckpointManager(const CheckpointConfig& config, RunRecord& record);

  struct Outcome {
    KeptCheckpoint committed;
    std::optional<KeptCheckpoint> best;  // of all kept ones
    /// For example, that a score is missing or an old checkpoint could not be removed.
    std::vector<std::string> warnings;
    FreeSpace space;
    std::vector<std::uint64_t> removed;  // numbers of those removed since the previous commit
    std::vector<std::string> keep;       // the result of keep_on_nodes()
  };
  /// Return CheckpointOutcome::keep: the folders below checkpoints/ on a node's own disk that are
  /// still needed.
  std::vector<std::string> keep_on_nodes(const Pinned& pinned = {}) const;
  /// Return the folder of a checkpoint's data on nodes, or nothing if nodes keep no data. Any
  /// thread.
  std::optional<std::string> data_on_nodes(Attempt attempt, std::uint64_t checkpoint_seq) const;
  /// Return `start` plus the checkpoints that no launcher has validated.
  RunStart with_unvalidated(RunStart start) const;
  /// Commit, then remove what the retention policy does not keep. Nobody reads older checkpoints
  /// any more: every rank has handed over a newer shard. But if the commit was given up and comes
  /// all the same, the next attempt may be reading one, so the next commit removes them.
  Result<Outcome> commit(const Commit& action, const Metrics& metrics, const std::string& created,
                         const Pinned& pinned = {}, CommitFence* fence = nullptr);

  struct Validated {
    KnownCheckpoint checkpoint;
    std::optional<KeptCheckpoint> best;  // the best one now
    std::vector<std::string> warnings;
    std::vector<std::uint64_t> removed;  // numbers of those removed
  };
  /// Record the result of a checkpoint's validation, and remove what the retention policy no longer
  /// keeps. NotFound if the checkpoint no longer exists.
  Result<Validated> validated(const ValidationRecord& record, const Pinned& pinned);

  /// Return all checkpoints that are kept, oldest first.
  std::vector<KnownCheckpoint> known() const;

  /// Return the best and the latest checkpoint, also before the first commit (of a resumed run).
  std::optional<KeptCheckpoint> best() const;
  std::optional<KeptCheckpoint> latest() const;

 private:
  void remember(const ListedCheckpoint& listed);
  void remember_unread(const Result<std::vector<ListedCheckpoint>>& listed);
  Error drop(const PendingCheckpoint& pending, Error error);
  std::vector<std::uint64_t> remove_by(const Pinned& pinned, std::vector<std::string>& warnings);
  std::optional<std::uint64_t> free_bytes() const;
  KeptCheckpoint kept(const ScoredCheckpoint& checkpoint) const;
  RetentionPolicy policy_;
  const bool on_nodes_;  // checkpoints stay on the nodes
  ValidationConfig validation_;
  RunRecord& record_;
  std::vector<ScoredCheckpoint> checkpoints_;
  std::vector<ScoredCheckpoint> told_;                 // those kept after the newest commit
  std::map<CheckpointNumber, KnownCheckpoint> known_;  // about the same ones
  // The newest commit came although it had been given up: the next attempt may be reading the
  // checkpoint before it.
  bool came_too_late_ = false;
  std::vector<std::string> unread_;  // data on nodes that a manifest we cannot read may name
};

}  // namespace train
