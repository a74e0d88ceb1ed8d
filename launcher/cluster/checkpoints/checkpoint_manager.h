// Commits checkpoints and removes those that need not be kept. Lives on the disk thread: it takes
// one call at a time, and calls block.
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

/// Removals after one commit, limited since each costs a sync. Where num_to_keep was lowered, later
/// commits remove the rest.
inline constexpr std::size_t kRemovalsMax = 32;

struct KeptCheckpoint {
  CheckpointInfo info;
  std::optional<double> score;
};

/// What is known of a checkpoint that is kept.
struct KnownCheckpoint {
  CheckpointInfo info;
  Metrics metrics;  // reported, and those of its validation over them
  std::optional<ValidationStatus> validation;
  std::string error;  // why its validation gave no metrics
  PendingCheckpoint made_as = {};
};

/// Decides between the thread that commits a checkpoint and whoever no longer waits for it.
class CommitFence {
 public:
  /// Called by the thread, as the last step before the checkpoint appears. Return false where the
  /// commit was given up: the checkpoint must not appear.
  bool pass() { return decide(State::Passed); }
  /// Give the commit up. Return false where the checkpoint may still appear.
  bool close() { return decide(State::Closed); }

 private:
  enum class State { Open, Passed, Closed };
  bool decide(State wanted) {
    State found = State::Open;
    return state_.compare_exchange_strong(found, wanted) || found == wanted;
  }
  std::atomic<State> state_{State::Open};
};

class CheckpointManager {
 public:
  /// Checkpoints that are not validated yet. They are kept whatever the retention policy says.
  using Pinned = std::set<CheckpointNumber>;

  CheckpointManager(const CheckpointConfig& config, RunRecord& record);

  struct Outcome {
    KeptCheckpoint committed;
    std::optional<KeptCheckpoint> best;  // of all that are kept
    std::vector<std::string>
        warnings;  // a score that is missing, an old one that could not be removed
    FreeSpace space;
    std::vector<std::uint64_t> removed;  // numbers of those removed since the previous commit
    std::vector<std::string> keep;       // as keep_on_nodes() says
  };
  /// Return CheckpointOutcome::keep: the folders below checkpoints/ on a node's own disk that are
  /// still needed.
  std::vector<std::string> keep_on_nodes(const Pinned& pinned = {}) const;
  /// Return `start` with the checkpoints that no launcher has validated added to it.
  RunStart with_unvalidated(RunStart start) const;
  /// Commit, then remove what the retention policy says. Nobody reads an older checkpoint any more:
  /// every rank has handed over a newer shard.
  Result<Outcome> commit(const Commit& action, const Metrics& metrics, const std::string& created,
                         const Pinned& pinned = {}, CommitFence* fence = nullptr);

  struct Validated {
    KnownCheckpoint checkpoint;
    std::optional<KeptCheckpoint> best;  // now
    std::vector<std::string> warnings;
  };
  /// Record what a checkpoint's validation found, and remove what the retention policy says now.
  /// NotFound where the checkpoint no longer exists.
  Result<Validated> validated(const ValidationRecord& record, const Pinned& pinned);

  /// Return all checkpoints that are kept, oldest first.
  std::vector<KnownCheckpoint> known() const;

  /// Return the best and the latest checkpoint, also before the first commit (of a resumed run).
  std::optional<KeptCheckpoint> best() const;
  std::optional<KeptCheckpoint> latest() const;

 private:
  void remember(const ListedCheckpoint& listed);
  void remove_by(const Pinned& pinned, std::vector<std::string>& warnings);
  std::optional<std::uint64_t> free_bytes() const;
  KeptCheckpoint kept(const ScoredCheckpoint& checkpoint) const;
  RetentionPolicy policy_;
  bool on_nodes_;  // checkpoints stay on the nodes
  ValidationConfig validation_;
  RunRecord& record_;
  std::vector<ScoredCheckpoint> checkpoints_;
  std::vector<ScoredCheckpoint> told_;                 // those kept after the newest commit
  std::map<CheckpointNumber, KnownCheckpoint> known_;  // of the same ones
};

}  // namespace train
