// Commits checkpoints and removes those that need not be kept. Lives on the disk thread: one call
// at a time, and it blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/run_record.h"
#include "launcher/core/run_events.h"
#include "lib/storage/retention.h"

namespace train {

/// After one commit, since each costs a sync; where num_to_keep was lowered, more go at the next.
inline constexpr std::size_t kRemovalsMax = 32;

struct KeptCheckpoint {
  CheckpointInfo info;
  std::optional<double> score;
};

class CheckpointKeeper {
 public:
  CheckpointKeeper(const CheckpointConfig& config, RunRecord& record);

  struct Outcome {
    KeptCheckpoint committed;
    std::optional<KeptCheckpoint> best;  // of all that are kept
    std::vector<std::string>
        warnings;  // a score that is missing, an old one that could not be removed
    StorageRoom room;
  };
  /// Commit, then remove what retention says. Nobody reads an older one any more: every rank has
  /// handed over a newer part.
  Result<Outcome> commit(const Commit& action, const Metrics& metrics, const std::string& created);

  /// What is there before the first commit (a resumed run).
  std::optional<KeptCheckpoint> best() const;
  std::optional<KeptCheckpoint> latest() const;

 private:
  std::optional<std::uint64_t> free_bytes() const;
  KeptCheckpoint kept(const ScoredCheckpoint& checkpoint) const;
  RetentionPolicy policy_;
  RunRecord& record_;
  std::vector<ScoredCheckpoint> checkpoints_;
};

}  // namespace train
