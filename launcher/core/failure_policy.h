// What to do when a worker group failed: restart it, and when, or give up, with the reason in
// words. Budgets are those of failure_config; a newer committed checkpoint refills them.
#pragma once

#include <string>

#include "launcher/core/job_spec.h"

namespace train {

enum class FailureKind {
  Worker,     // a worker died after the group had made its first report or barrier
  Start,      // before
  NodeLost,   // heartbeats stopped
  Permanent,  // trying again cannot help: the command does not exist
};

struct FailureDecision {
  bool restart = false;
  Duration delay{};    // before the next attempt
  std::string reason;  // "restart 2 of 3", "no restart left: max_failures is 3"
};

class FailurePolicy {
 public:
  explicit FailurePolicy(const FailureConfig& config) : config_(config) {}

  /// Count a failure and decide.
  FailureDecision on_failure(FailureKind kind);
  /// A newer checkpoint is committed: failures before it no longer count.
  void on_progress();

  int failures() const { return failures_; }  // since the last progress
  int restarts() const { return restarts_; }  // in all

 private:
  FailureConfig config_;
  int failures_ = 0;
  int start_failures_ = 0;
  int restarts_ = 0;
  int restarts_without_progress_ = 0;
};

}  // namespace train
