// Tracks which committed checkpoints wait for validation, and which one is being validated: one at
// a time, oldest first. The queue is bounded. The controller decides where to validate, and whether
// at all.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/core/run_events.h"

namespace train {

/// Each waiting checkpoint is kept, whatever num_to_keep is. If one more arrives, the oldest is
/// given up.
inline constexpr std::size_t kValidationsWaitingMax = 8;

class ValidationQueue {
 public:
  /// `every`: from checkpoint_config.validation.
  explicit ValidationQueue(int every = 0) : every_(static_cast<std::uint64_t>(every)) {}

  /// Add a committed checkpoint, unless it need not be validated. Return the checkpoint that was
  /// given up for it.
  std::optional<CheckpointInfo> add(const CheckpointInfo& checkpoint);
  /// Begin the next one on `node`. Return nothing if one runs or none waits.
  std::optional<CheckpointInfo> begin(NodeId node);
  /// Record that the validator on `node` is gone without a result: its checkpoint is next again.
  void lost(NodeId node);
  /// Record that the attempt has ended, and every validator with it.
  void end_attempt();
  /// Record that the checkpoint's result is on disk, whether or not its validation was known to
  /// run.
  void finished(std::uint64_t number);

  /// Return the checkpoint that is being validated on `node`.
  const CheckpointInfo* running_on(NodeId node) const;
  bool idle() const { return !running_ && waiting_.empty(); }
  /// Return true the first time in an attempt: the user has to be told that the
  /// training is over and the run waits only for validations.
  bool says_waiting() { return !std::exchange(said_, true); }
  /// Return the numbers of the checkpoints without a result, the running one first.
  std::vector<std::uint64_t> unfinished() const;

 private:
  struct Running {
    CheckpointInfo checkpoint;
    NodeId node;
  };
  void queue_again();

  std::uint64_t every_;
  std::optional<Running> running_;
  std::deque<CheckpointInfo> waiting_;
  bool said_ = false;
};

}  // namespace train
