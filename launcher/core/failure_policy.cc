#include "launcher/core/failure_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {
namespace {

// The first restart waits for nothing: most deaths are single ones. From the second without
// progress on, initial × 2^n.
Duration backoff_delay(const Backoff& backoff, int restarts_without_progress) {
  if (restarts_without_progress == 0) return Duration{0};
  Duration delay = backoff.initial;
  for (int i = 1; i < restarts_without_progress && delay < backoff.max; ++i) delay *= 2;
  return std::min(delay, backoff.max);
}

}  // namespace

FailureDecision FailurePolicy::on_failure(FailureKind kind) {
  if (kind == FailureKind::Permanent)
    return {.restart = false, .delay = {}, .reason = "a restart would fail the same way"};
  const bool at_start = kind == FailureKind::Start;
  int& used = at_start ? start_failures_ : failures_;
  const int allowed = at_start ? config_.max_start_failures : config_.max_failures;
  const char* key = at_start ? "max_start_failures" : "max_failures";
  if (allowed != kUnlimited && used >= allowed) {
    return {.restart = false,
            .delay = {},
            .reason = allowed == 0
                          ? fmt::format("no restart: {} is 0", key)
                          : fmt::format("no restart left: {} of {} used (failure_config.{})", used,
                                        allowed, key)};
  }
  ++used;
  ++restarts_;
  const Duration delay = backoff_delay(config_.backoff, restarts_without_progress_++);
  const std::string which = allowed == kUnlimited ? fmt::format("restart {}", used)
                                                  : fmt::format("restart {} of {}", used, allowed);
  return {.restart = true,
          .delay = delay,
          .reason =
              delay.count() == 0 ? which : fmt::format("{} in {}", which, format_duration(delay))};
}

void FailurePolicy::on_progress() {
  failures_ = 0;
  start_failures_ = 0;
  restarts_without_progress_ = 0;
}

}  // namespace train
