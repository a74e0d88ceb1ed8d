#include "launcher/core/failure_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace train {
namespace {

constexpr std::array<std::string_view, 5> kKinds{"worker", "start", "node_lost", "preempted",
                                                 "permanent"};

// The first restart waits for nothing: most deaths are single ones. From the second without
// progress on, initial × 2^n.
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
  if (preempted) return {&used_.preemptions, config_.max_preemptions, "max_preemptions"};
  if (kind == FailureKind::Start)
    return {&used_.start_failures, config_.max_start_failures, "max_start_failures"};
  return {&used_.failures, config_.max_failures, "max_failures"};
}

FailureDecision FailurePolicy::on_failure(FailureKind kind,
                                          const std::optional<FailurePlace>& place) {
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
  if (same_place_again(place)) {
    return {
        .restart = false,
        .delay = {},
        .reason = fmt::format("rank {} died after its report {} {} times in a row, with no newer "
                              "checkpoint: a restart would end the same way",
                              place->rank.value, place->report, kSamePlaceMax)};
  }
  ++*budget.used;
  const Duration delay = backoff_delay(config_.backoff, used_.restarts_without_progress++);
  const std::string which = budget.allowed == kUnlimited
                                ? fmt::format("restart {}", *budget.used)
                                : fmt::format("restart {} of {}", *budget.used, budget.allowed);
  return {.restart = true,
          .delay = delay,
          .reason =
              delay.count() == 0 ? which : fmt::format("{} in {}", which, format_duration(delay))};
}

bool FailurePolicy::same_place_again(const std::optional<FailurePlace>& place) {
  times_there_ = place && place == last_place_ ? times_there_ + 1 : 1;
  last_place_ = place;
  return place && place->report > 0 && times_there_ >= kSamePlaceMax;
}

void FailurePolicy::on_progress() {
  used_ = {};
  times_there_ = 0;
  last_place_.reset();
}

}  // namespace train
