// This file decides which checkpoints to keep (like Ray's CheckpointConfig). Pure. After each
// commit, the launcher removes the checkpoints that the plan lists.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/storage/manifest.h"

namespace train {

enum class BestIs { Highest, Lowest };

struct RetentionPolicy {
  std::optional<int> num_to_keep = {};  // unset: all; never below 1 (the spec refuses it)
  std::optional<std::string> score_attribute = {};  // unset: the newest is the best
  BestIs best_is = BestIs::Highest;
};

struct Score {
  std::optional<double> value;  // nothing: worse than any score
  std::string warning;          // why there is no score although one is required; else empty
};

/// Return a checkpoint's score from rank 0's metrics reported with it. Warns if the attribute is
/// missing, NaN or no number: such a checkpoint is kept only while it is the newest, or while
/// better ones do not fill num_to_keep.
Score score_of(const RetentionPolicy& policy, CheckpointNumber checkpoint, const Metrics& metrics);

struct ScoredCheckpoint {
  CheckpointNumber number;
  std::optional<double> score;
};

struct RetentionPlan {
  std::optional<CheckpointNumber> latest;
  // The newest if there are no scores; among equal scores, the newer.
  std::optional<CheckpointNumber> best;
  std::vector<CheckpointNumber> remove;  // oldest first
  bool operator==(const RetentionPlan&) const = default;
};

/// Keep the best num_to_keep, the newest, and `pinned` (those that workers may be reading, since
/// the attempt restored them). `checkpoints` may be in any order.
RetentionPlan plan_retention(const RetentionPolicy& policy,
                             std::vector<ScoredCheckpoint> checkpoints,
                             const std::set<CheckpointNumber>& pinned = {});

}  // namespace train
