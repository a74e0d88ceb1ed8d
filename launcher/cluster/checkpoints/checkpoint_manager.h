// Commits checkpoints and removes those that need not be kept. Lives on the disk thread: one call
// at a time, and it blocks.
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

/// After one commit, since each costs a sync; where num_to_keep was lowered, more go at the next.
inline constexpr std::size_t kRemovalsMax = 32;

struct KeptCheckpoint {
  CheckpointInfo info;
  std::optional<double> score;
};

/// What is known of one that is kept.
struct KnownCheckpoint {
  CheckpointInfo info;
  Metrics metrics;  // reported, and those of its validation over them
  std::optional<ValidationStatus> validation;
  std::string error;  // why its validation gave no metrics
  PendingCheckpoint made_as = {};
};

/// Between the thread that commits a checkpoint and whoever no longer waits for that.
class CommitFence {
 public:
  /// By the thread, last before the checkpoint appears. False: it was given up, and must not.
  bool pass() { return settle(State::Passed); }
  /// False: it may appear all the same.
  bool close() { return settle(State::Closed); }

 private:
  enum class State { Open, Passed, Closed };
  bool settle(State wanted) {
    State found = State::Open;
    return state_.compare_exchange_strong(found, wanted) || found == wanted;
  }
  std::atomic<State> state_{State::Open};
};

class CheckpointManager {
 public:
  /// Of checkpoints that are not validated yet: kept, whatever retention says.
  using Pinned = std::set<CheckpointNumber>;

  CheckpointManager(const CheckpointConfig& config, RunRecord& record);

  struct Outcome {
    KeptCheckpoint committed;
    std::optional<KeptCheckpoint> best;  // of all that are kept
    std::vector<std::string>
        warnings;  // a score that is missing, an old one that could not be removed
    StorageRoom room;
    std::vector<std::uint64_t> removed;  // since the commit before, by their numbers
    std::vector<std::string> keep;       // as keep_on_nodes() says
  };
  /// CheckpointOutcome::keep: the folders, below checkpoints/ of a node's own disk, that are of use
  /// from now on.
  std::vector<std::string> keep_on_nodes(const Pinned& pinned = {}) const;
  /// `start`, with the checkpoints that no launcher has validated.
  RunStart with_unvalidated(RunStart start) const;
  /// Commit, then remove what retention says. Nobody reads an older one any more: every rank has
  /// handed over a newer shard.
  Result<Outcome> commit(const Commit& action, const Metrics& metrics, const std::string& created,
                         const Pinned& pinned = {}, CommitFence* fence = nullptr);

  struct Validated {
    KnownCheckpoint checkpoint;
    std::optional<KeptCheckpoint> best;  // now
    std::vector<std::string> warnings;
  };
  /// Write down what its validation found, and remove what retention says now. NotFound where the
  /// checkpoint is not there any more.
  Result<Validated> validated(const ValidationRecord& record, const Pinned& pinned);

  /// All that are kept, the oldest first.
  std::vector<KnownCheckpoint> known() const;

  /// What is there before the first commit (a resumed run).
  std::optional<KeptCheckpoint> best() const;
  std::optional<KeptCheckpoint> latest() const;

 private:
  void remember(const ListedCheckpoint& listed);
  void remove_by(const Pinned& pinned, std::vector<std::string>& warnings);
  std::optional<std::uint64_t> free_bytes() const;
  KeptCheckpoint kept(const ScoredCheckpoint& checkpoint) const;
  RetentionPolicy policy_;
  bool on_nodes_;  // is where checkpoints stay
  ValidationConfig validation_;
  RunRecord& record_;
  std::vector<ScoredCheckpoint> checkpoints_;
  std::vector<ScoredCheckpoint> told_;                 // that were there after the newest commit
  std::map<CheckpointNumber, KnownCheckpoint> known_;  // of the same ones
};

}  // namespace train
