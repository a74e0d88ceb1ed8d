// Why an attempt ends: the first failure, or a group that has to change its size. Later failures
// are consequences of the first one, and are only counted.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "launcher/core/rank_table.h"
#include "launcher/core/run_progress.h"

namespace train {

class AttemptCause {
 public:
  struct Failure {
    FailureKind kind = FailureKind::Worker;
    /// Empty: launcher/report derives the text from how the rank ended.
    std::string cause = {};
    std::optional<Rank> rank = {};
    std::optional<WorkerEnd> end = {};
    std::optional<NodeId> node = {};
    std::optional<Error> start_error = {};
    bool marks = true;  // of a hang: the SDK marks the rank's loop
    /// Return one line for the log.
    std::string summary() const;
  };
  struct Resize {  // the group has to end gracefully and start again
    std::string reason;
    bool preempted = false;
    bool lacked_room = false;  // a node had less room than it had offered
  };

  /// Record a failure. Return false if one was already recorded.
  bool fail(Failure failure);
  bool failed() const { return failure_.has_value(); }
  /// After a failure, count the end of a rank as its consequence, unless it is the rank that hung.
  void rank_ended(Rank rank) {
    const bool hung = failure_ && failure_->kind == FailureKind::Hung && failure_->rank == rank;
    if (failure_ && !hung) ++collateral_;
  }

  void resize(Resize resize) { resize_ = std::move(resize); }
  /// Record this reason to resize, unless there already is one.
  void resize_unless_known(Resize resize) {
    if (!resize_) resize_ = std::move(resize);
  }
  void forget_resize() { resize_.reset(); }
  const std::optional<Resize>& resize() const { return resize_; }

  /// Return whether it ends only because a node had less room than it had offered.
  bool lacked_room() const { return !failure_ && resize_ && resize_->lacked_room; }
  /// Return whether there is neither a failure nor a resize: the attempt ends only with its ranks.
  bool none() const { return !failure_ && !resize_; }

  /// Describe the attempt's end. `restored`: the checkpoint that the attempt began from.
  AttemptEnded describe(Attempt attempt, const std::optional<Stop>& stop, const RankTable& ranks,
                        const std::optional<CheckpointInfo>& restored) const;

 private:
  std::optional<FailureLocation> location(const RankTable& ranks,
                                          const std::optional<CheckpointInfo>& restored) const;

  std::optional<Failure> failure_;
  std::optional<Resize> resize_;
  int collateral_ = 0;
};

}  // namespace train
