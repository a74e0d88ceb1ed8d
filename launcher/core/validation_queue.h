// Which committed checkpoints are to be validated, and which one is being: one at a time, the
// oldest first, and a bounded number that waits. Where, and whether at all, is the controller's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/core/run_events.h"

namespace train {

/// Each of them is kept, whatever num_to_keep says. When one more comes, the oldest is given up.
inline constexpr std::size_t kValidationsWaitingMax = 8;

class ValidationQueue {
 public:
  /// `every`: of checkpoint_config.validation. `unvalidated`: by earlier launchers, the oldest
  /// first.
  explicit ValidationQueue(int every = 0, const std::vector<CheckpointInfo>& unvalidated = {});

  /// Take in a checkpoint that was committed; one that is not to be validated is passed over.
  /// Answers with the one that was given up for it.
  std::optional<CheckpointInfo> add(const CheckpointInfo& checkpoint);
  /// The next one begins on `node`; nothing while one runs, or where none waits.
  std::optional<CheckpointInfo> begin(NodeId node);
  /// Whoever ran it on `node` is gone, without a result: it is the next one again.
  void lost(NodeId node);
  /// The same, wherever it ran.
  void lost();
  /// Its result is on disk, whether or not it was known to run.
  void finished(std::uint64_t number);

  /// What runs on `node`.
  const CheckpointInfo* running_on(NodeId node) const;
  bool idle() const { return !running_ && waiting_.empty(); }
  /// The training is over, and only they are waited for. True where that is to be said: the first
  /// time in an attempt, whose end lost() is.
  bool says_waiting() { return !std::exchange(said_, true); }
  /// The numbers of those without a result, the one that runs first.
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
