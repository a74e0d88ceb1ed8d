// What follows while ranks of an attempt show no sign of life: notes, and the group's failure once
// the stacks of all ranks are known. HangDetector judges; this machine acts. Of several ranks that
// hang alike, it blames one whose stack is not in a collective call if the others are in one. Also
// orders the stacks that somebody asks for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/attempt_cause.h"
#include "launcher/core/attempt_group.h"
#include "launcher/core/hang_detector.h"

namespace train {

/// How long a group that hangs waits for its stacks; the shell gives up a little earlier.
inline constexpr Duration kStacksWait = seconds(20);

class HangController {
 public:
  /// Both outlive this object.
  HangController(const RunContext& run, AttemptGroup& group)
      : run_(run),
        group_(group),
        detector_(run.spec.run_config.failure_config, run.trusts_learned_limits) {}

  void on(const RanksSampled& event);
  void on(const StacksCollected& event);
  /// Order the stacks of these ranks; empty: of all.
  void collect_stacks(const std::string& why, std::vector<Rank> ranks);

  /// Do what is due while the group runs. Return the failure that is to end it.
  std::optional<AttemptCause::Failure> advance();
  HangDetector::Learned learned() const { return detector_.learned(); }
  std::optional<TimePoint> next_deadline() const;

 private:
  void judge();
  void tell_of(const HangDetector::Finding& found);
  void tell_lines(std::string_view text);
  void blame_by_stacks(HangDetector::Finding& hung) const;
  TimePoint now() const { return run_.progress.now(); }

  const RunContext run_;
  AttemptGroup& group_;
  HangDetector detector_;
  /// The group hangs, and ends then at the latest: its stacks are not waited for longer.
  std::optional<TimePoint> ends_at_;
  StacksCollected stacks_{};  // taken because the group hangs
};

}  // namespace train
