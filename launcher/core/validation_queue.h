// Tracks which committed checkpoints wait for validation, and which one is being validated: one at
// a time, the oldest first. A bounded number waits. The controller decides where, and whether at
// all.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/core/run_events.h"

namespace train {

/// Each waiting checkpoint is kept, whatever num_to_keep says. When one more comes, the oldest is
/// given up.
inline constexpr std::size_t kValidationsWaitingMax = 8;

class ValidationQueue {
 public:
  /// `every`: from checkpoint_config.validation. `unvalidated`: left by earlier launchers, oldest
  /// first.
  explicit ValidationQueue(int every = 0, const std::vector<CheckpointInfo>& unvalidated = {});

  /// Take in a committed checkpoint; one that need not be validated is ignored. Return the
  /// checkpoint that was given up for it.
  std::optional<CheckpointInfo> add(const CheckpointInfo& checkpoint);
  /// Begin the next one on `node`. Return nothing while one runs, or where none waits.
  std::optional<CheckpointInfo> begin(NodeId node);
  /// The validator on `node` is gone without a result: its checkpoint is the next one again.
  void lost(NodeId node);
  /// Do the same wherever it ran.
  void lost();
  /// The checkpoint's result is on disk, whether or not its validation was known to run.
  void finished(std::uint64_t number);

  /// Return the checkpoint that is being validated on `node`.
  const CheckpointInfo* running_on(NodeId node) const;
  bool idle() const { return !running_ && waiting_.empty(); }
  /// The training is over, and the run waits only for validations. Return true where that has to be
  /// said: the first time in an attempt, which ends with lost().
  bool says_waiting() { return !std::exchange(said_, true); }
  /// Return the numbers of those without a result, the running one first.
  std::vector<std::uint64_t> unfinished() const;

 private:
  struct Running {
    CheckpointInfo checkpoint;
    NodeId node;
  };
  std::uint64_t every_;
  std::optional<Running> running_;
  std::deque<CheckpointInfo> waiting_;
  bool said_ = false;
};

}  // namespace train
