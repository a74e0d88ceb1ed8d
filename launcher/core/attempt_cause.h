// Why an attempt ends: the first failure, or a group that has to be of another size. What fails
// after the first failure followed from it, and is only counted.
#pragma once

#include <optional>
#include <string>

#include "launcher/core/rank_table.h"
#include "launcher/core/run_progress.h"

namespace train {

class AttemptCause {
 public:
  struct Failure {
    FailureKind kind = FailureKind::Worker;
    std::string cause = {};  // "": how the rank ended says it; the words are launcher/report's
    std::optional<Rank> rank = {};
    std::optional<WorkerEnd> end = {};
    std::optional<NodeId> node = {};
    std::optional<Error> start_error = {};
    /// Return one line for the log.
    std::string summary() const;
  };
  struct Resize {  // the group has to end gracefully and start again
    std::string reason;
    bool preempted = false;
  };

  /// Record a failure. Return false where one was known already.
  bool fail(Failure failure);
  bool failed() const { return failure_.has_value(); }
  /// A rank ended. After a failure it is one of those that followed from it.
  void rank_ended() {
    if (failure_) ++collateral_;
  }

  void resize(Resize resize) { resize_ = std::move(resize); }
  /// Resize for this reason, unless there is one.
  void resize_unless_known(const std::string& reason) {
    if (!resize_) resize_ = Resize{.reason = reason};
  }
  void forget_resize() { resize_.reset(); }
  const std::optional<Resize>& resize() const { return resize_; }

  /// Return whether nothing but the end of its ranks ends the attempt.
  bool none() const { return !failure_ && !resize_; }

  /// Return what to tell of the attempt's end. `restored`: the checkpoint that it began from.
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
