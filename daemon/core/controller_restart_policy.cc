#include "daemon/core/controller_restart_policy.h"

#include <algorithm>

namespace train {
namespace {

constexpr int kBug = 70;  // the exit code with which train-run reports a bug of its own
constexpr Duration kLongLife = seconds(60), kPauseMax = seconds(30);

}  // namespace

std::optional<Duration> ControllerRestartPolicy::ended(const ControllerEnd& end, Duration lived) {
  const bool meant = end.how == ControllerEnd::How::Exited && end.exit_code != kBug;
  if (end.run_ended || meant) return std::nullopt;
  if (lived >= kLongLife) failures_ = 0;
  const int failures = failures_++;
  if (failures == 0) return Duration{0};
  return std::min<Duration>(seconds(1) * (1 << std::min(failures - 1, 10)), kPauseMax);
}

}  // namespace train
