// What to do when a worker group failed: restart it, and when, or give up, with the reason in
// words. Budgets are those of failure_config; a newer committed checkpoint refills them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/job_spec.h"
#include "lib/base/ids.h"

namespace train {

enum class FailureKind {
  Worker,     // a worker died after the group had made its first report or barrier
  Start,      // before
  NodeLost,   // heartbeats stopped
  Preempted,  // its node was being drained, and the workers did not leave in good order
  Permanent,  // trying again cannot help: the command does not exist
};
std::string_view to_string(FailureKind kind);
std::optional<FailureKind> failure_kind_of(std::string_view name);

struct FailureDecision {
  bool restart = false;
  Duration delay{};    // before the next attempt
  std::string reason;  // "restart 2 of 3", "no restart left: max_failures is 3"
};

/// What of the budgets is used.
struct FailureCounts {
  int failures = 0;  // since the last progress, all of them
  int start_failures = 0;
  int preemptions = 0;
  int restarts_without_progress = 0;
  bool operator==(const FailureCounts&) const = default;
};

/// Where a worker died: the same place again and again is a bug that no restart mends, unless it is
/// the node's.
struct FailurePlace {
  Rank rank;
  NodeId node;
  std::uint64_t report = 0;      // its last one that is known; what it said as it died may be lost
  std::uint64_t checkpoint = 0;  // that the attempt began from
};
inline constexpr int kSamePlaceMax = 3;

class FailurePolicy {
 public:
  /// `elastic`: the group may shrink, so a lost node counts as a preemption.
  explicit FailurePolicy(const FailureConfig& config, bool elastic = false,
                         const FailureCounts& used = {})
      : config_(config), elastic_(elastic), used_(used) {}

  /// Count a failure and decide. `place`: of a worker that died in a group that had reported;
  /// `moves_away`: the next attempt does without that node.
  FailureDecision on_failure(FailureKind kind, const std::optional<FailurePlace>& place = {},
                             bool moves_away = false);
  /// A newer checkpoint is committed: failures before it no longer count.
  void on_progress();

  const FailureCounts& counts() const { return used_; }

 private:
  struct Budget {
    int* used;
    int allowed;
    const char* key;
  };
  Budget budget_of(FailureKind kind);
  struct SamePlace {
    FailurePlace first;
    std::uint64_t furthest = 0;  // report
    int times = 0;
    bool one_node = true;
    bool includes(const FailurePlace& place) const;
  };
  void remember(const std::optional<FailurePlace>& place);

  FailureConfig config_;
  bool elastic_ = false;
  FailureCounts used_;
  std::optional<SamePlace> place_;  // of the newest failures
};

}  // namespace train
