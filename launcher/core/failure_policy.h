// Decides what to do when a worker group has failed: restart it, and when, or give up, with the
// reason in words. Also decides which nodes the next group avoids. Budgets are those of
// failure_config; a newer committed checkpoint refills them. All rules about failures are here.
// FailureMemory is what a later launcher must know about earlier failures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/ids.h"

namespace train {

enum class FailureKind {
  Worker,     // a worker died after the group had made its first report or barrier
  Start,      // a worker died before that
  NodeLost,   // heartbeats stopped
  Preempted,  // the node was draining, and the workers did not leave gracefully
  Hung,       // a worker showed no sign of life
  Permanent,  // trying again cannot help: the command does not exist
};
std::string_view to_string(FailureKind kind);
std::optional<FailureKind> failure_kind_of(std::string_view name);

struct FailureDecision {
  bool restart = false;
  Duration delay{};    // before the next attempt
  std::string reason;  // "restart 2 of 3", "no restart left: max_failures is 3"
};

/// How much of each budget has been used since the last progress.
struct FailureCounts {
  int failures = 0;
  int start_failures = 0;
  int preemptions = 0;
  int restarts_without_progress = 0;
  bool operator==(const FailureCounts&) const = default;
};

/// Where a worker died. Repeated deaths at the same place point to a bug that no restart fixes,
/// unless the node is at fault.
struct FailureLocation {
  Rank rank;
  NodeId node;
  /// The last known one: what the worker sent as it died may be lost.
  std::uint64_t report = 0;
  std::uint64_t checkpoint = 0;  // that the attempt began from
  bool operator==(const FailureLocation&) const = default;
};
inline constexpr int kSameLocationMax = 3;
inline constexpr int kNodeFailuresMax = 3;  // without progress; then the node is quarantined
inline constexpr Duration kNodeCooldown = std::chrono::minutes(10);

/// Consecutive deaths at one place.
struct SameLocation {
  FailureLocation first;
  std::uint64_t furthest = 0;  // report
  int times = 0;
  bool one_node = true;
  bool includes(const FailureLocation& location) const;
  bool operator==(const SameLocation&) const = default;
};

/// What the policy remembers, so that a resumed run does not forget a crash loop or a bad node.
struct FailureMemory {
  FailureCounts counts = {};
  std::optional<SameLocation> location = {};  // of the newest failures
  std::map<NodeId, int> node_failures = {};   // since the last progress
  std::set<NodeId> quarantined = {};          // each launcher times the cooldown itself
  std::map<NodeId, Attempt> stuck = {};       // where a worker of this attempt cannot be killed
  bool trusts_learned_limits = false;         // of hangs: the last one to accuse a rank was right
  bool operator==(const FailureMemory&) const = default;
};

class FailurePolicy {
 public:
  /// `elastic`: the group may shrink, so a lost node counts as a preemption. `nodes`: how many the
  /// job names; the only one is never quarantined.
  explicit FailurePolicy(const FailureConfig& config, bool elastic = false, std::size_t nodes = 2)
      : config_(config), elastic_(elastic), nodes_(nodes) {}
  /// Continue from what earlier launchers remembered. Nodes that they quarantined stay quarantined
  /// for a whole new cooldown, since their clock is not ours.
  void recall(FailureMemory memory, TimePoint now);

  /// Set how many nodes the job names now.
  void nodes_are(std::size_t count) { nodes_ = count; }

  /// Count a failure that was `node`'s fault. Return true if this quarantines the node.
  bool node_failed(NodeId node, TimePoint now);
  /// Leave out a node as long as a worker of this attempt lives there, which cannot be killed.
  void node_stuck(NodeId node, Attempt attempt) { memory_.stuck[node] = attempt; }
  /// Take note of which attempts live on a node. Return true if this readmits one that was stuck.
  bool node_has(NodeId node, const std::vector<Attempt>& living);
  /// Record whether a learned limit accused a rank rightly.
  void learned_limits_were(bool right) { memory_.trusts_learned_limits = right; }
  /// Count a failure of the group and decide. `location`: where a worker died, if its group had
  /// reported. `moves_away`: the next attempt avoids that node.
  FailureDecision on_failure(FailureKind kind, const std::optional<FailureLocation>& location = {},
                             bool moves_away = false);
  /// Record that a newer checkpoint is committed: failures before it no longer count.
  void on_progress();

  /// Return whether the node is left out of the next attempt, as long as there is room without it.
  bool quarantined(NodeId node) const { return memory_.quarantined.count(node) != 0; }
  bool any_quarantined() const { return !memory_.quarantined.empty(); }
  /// Return whether the node cannot be used: its traind would wait for that worker.
  bool stuck(NodeId node) const { return memory_.stuck.contains(node); }
  bool all_nodes_stuck() const { return memory_.stuck.size() >= nodes_; }
  /// Readmit the nodes whose cooldown is over. Return true if there were any.
  bool readmit(TimePoint now);
  /// Return when the next cooldown is over.
  std::optional<TimePoint> next_deadline() const;

  const FailureMemory& memory() const { return memory_; }

 private:
  struct Budget {
    int* used;
    int allowed;
    const char* key;
  };
  Budget budget_of(FailureKind kind);
  void quarantine(NodeId node, TimePoint now);
  void remember(const std::optional<FailureLocation>& location);

  FailureConfig config_;
  bool elastic_ = false;
  std::size_t nodes_ = 2;
  FailureMemory memory_;
  std::map<NodeId, TimePoint> cooldown_until_;  // of those that are quarantined
};

}  // namespace train
