#include "launcher/core/failure_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace train {
namespace {

constexpr std::array<std::string_view, 6> kKinds{"worker",    "start", "node_lost",
                                                 "preempted", "hung",  "permanent"};

// Return the delay before a restart. The first restart does not wait: most deaths are isolated.
// From the second one without progress on, it is initial × 2^n.
Duration backoff_delay(const Backoff& backoff, int restarts_without_progress) {
  if (restarts_without_progress == 0) return Duration{0};
  Duration delay = backoff.initial;
  for (int i = 1; i < restarts_without_progress && delay < backoff.max; ++i) delay *= 2;
  return std::min(delay, backoff.max);
}

}  // namespace

std::string_view to_string(FailureKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::optional<FailureKind> failure_kind_of(std::string_view name) {
  const auto found = std::find(kKinds.begin(), kKinds.end(), name);
  if (found == kKinds.end()) return std::nullopt;
  return static_cast<FailureKind>(found - kKinds.begin());
}

FailurePolicy::Budget FailurePolicy::budget_of(FailureKind kind) {
  const bool preempted =
      kind == FailureKind::Preempted || (kind == FailureKind::NodeLost && elastic_);
  if (preempted) return {&memory_.counts.preemptions, config_.max_preemptions, "max_preemptions"};
  if (kind == FailureKind::Start)
    return {&memory_.counts.start_failures, config_.max_start_failures, "max_start_failures"};
  return {&memory_.counts.failures, config_.max_failures, "max_failures"};
}

FailureDecision FailurePolicy::on_failure(FailureKind kind,
                                          const std::optional<FailureLocation>& location,
                                          bool moves_away) {
  if (kind == FailureKind::Permanent)
    return {.restart = false, .delay = {}, .reason = "a restart would fail the same way"};
  const Budget budget = budget_of(kind);
  if (budget.allowed != kUnlimited && *budget.used >= budget.allowed) {
    return {.restart = false,
            .delay = {},
            .reason = budget.allowed == 0
                          ? fmt::format("no restart: {} is 0", budget.key)
                          : fmt::format("no restart left: {} of {} used (failure_config.{})",
                                        *budget.used, budget.allowed, budget.key)};
  }
  remember(location);
  // All deaths were on one node, and the next attempt avoids it: the training step is not to blame
  // yet.
  const bool perhaps_the_node = memory_.location && memory_.location->one_node && moves_away;
  if (memory_.location && memory_.location->times >= kSameLocationMax && !perhaps_the_node) {
    const std::string where = memory_.location->furthest == 0
                                  ? "at its first report"
                                  : fmt::format("after its report {}", memory_.location->furthest);
    return {.restart = false,
            .delay = {},
            .reason = fmt::format("rank {} {} {} {} times in a row, with no newer checkpoint: a "
                                  "restart would end the same way",
                                  location->rank.value, kind == FailureKind::Hung ? "hung" : "died",
                                  where, memory_.location->times)};
  }
  ++*budget.used;
  // A preemption predicts nothing about the next attempt, which need not wait.
  const Duration delay =
      kind == FailureKind::Preempted
          ? Duration{0}
          : backoff_delay(config_.backoff, memory_.counts.restarts_without_progress++);
  const std::string which = budget.allowed == kUnlimited
                                ? fmt::format("restart {}", *budget.used)
                                : fmt::format("restart {} of {}", *budget.used, budget.allowed);
  return {.restart = true,
          .delay = delay,
          .reason =
              delay.count() == 0 ? which : fmt::format("{} in {}", which, format_duration(delay))};
}

bool SameLocation::includes(const FailureLocation& location) const {
  // What a worker reported as it died may be known for one attempt and not for another: one report,
  // or, if reports follow each other quickly, as many as are in flight at once.
  const std::uint64_t unknown = std::max<std::uint64_t>(1, first.report / 100);
  const std::uint64_t apart =
      std::max(first.report, location.report) - std::min(first.report, location.report);
  return location.rank == first.rank && location.checkpoint == first.checkpoint && apart <= unknown;
}

void FailurePolicy::remember(const std::optional<FailureLocation>& location) {
  if (!location) return memory_.location.reset();
  if (!memory_.location || !memory_.location->includes(*location))
    memory_.location = SameLocation{.first = *location};
  ++memory_.location->times;
  memory_.location->furthest = std::max(memory_.location->furthest, location->report);
  memory_.location->one_node &= location->node == memory_.location->first.node;
}

void FailurePolicy::on_progress() {
  memory_.counts = {};
  memory_.location.reset();
  memory_.node_failures.clear();
}

// ---- nodes

void FailurePolicy::recall(FailureMemory memory, TimePoint now) {
  memory_ = std::move(memory);
  for (const NodeId node : std::exchange(memory_.quarantined, {})) quarantine(node, now);
}

bool FailurePolicy::node_failed(NodeId node, TimePoint now) {
  if (++memory_.node_failures[node] < kNodeFailuresMax || nodes_ < 2) return false;
  quarantine(node, now);
  return true;
}

void FailurePolicy::quarantine(NodeId node, TimePoint now) {
  if (nodes_ < 2) return;
  memory_.node_failures.erase(node);
  memory_.quarantined.insert(node);
  cooldown_until_[node] = now + kNodeCooldown;
}

bool FailurePolicy::node_has(NodeId node, const std::vector<Attempt>& living) {
  const auto found = memory_.stuck.find(node);
  if (found == memory_.stuck.end() ||
      std::find(living.begin(), living.end(), found->second) != living.end())
    return false;
  memory_.stuck.erase(found);
  return true;
}

bool FailurePolicy::readmit(TimePoint now) {
  const std::size_t over =
      std::erase_if(cooldown_until_, [now](const auto& entry) { return entry.second <= now; });
  if (over == 0) return false;
  std::erase_if(memory_.quarantined,
                [this](NodeId node) { return cooldown_until_.count(node) == 0; });
  return true;
}

std::optional<TimePoint> FailurePolicy::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [node, until] : cooldown_until_) {
    if (!next || until < *next) next = until;
  }
  return next;
}

}  // namespace train
