#include "daemon/supervisor/core/worker_ending.h"

#include <algorithm>

namespace train {

WorkerEnding::Next WorkerEnding::advance(const Rest& rest, TimePoint now) {
  if (!told_) {
    if (!rest.output_ended && now < died_ + kOutputDelayMax) return Next::Wait;
    told_ = true;
    return Next::TellEnd;
  }
  if (rest.connected || rest.staging) return Next::Wait;
  if (rest.unwinding && now < died_ + kCrashStackMax) return Next::Wait;
  return rest.output_ended || now >= died_ + kOutputEndMax ? Next::Drained : Next::Wait;
}

std::optional<TimePoint> WorkerEnding::next_deadline(const Rest& rest, TimePoint now) const {
  std::optional<TimePoint> next;
  const auto wait_until = [&](bool waits, Duration after) {
    const TimePoint at = died_ + after;
    if (waits && now < at) next = std::min(next.value_or(at), at);
  };
  wait_until(!rest.output_ended, told_ ? kOutputEndMax : kOutputDelayMax);
  wait_until(told_ && rest.unwinding, kCrashStackMax);
  return next;
}

}  // namespace train
