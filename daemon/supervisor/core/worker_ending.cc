#include "daemon/supervisor/core/worker_ending.h"

namespace train {

WorkerEnding::Next WorkerEnding::advance(const Rest& rest, TimePoint now) {
  if (!told_) {
    if (!rest.output_ended && now < died_ + kOutputDelayMax) return Next::Wait;
    told_ = true;
    return Next::TellEnd;
  }
  if (rest.connected || rest.staging) return Next::Wait;
  return rest.output_ended || now >= died_ + kOutputEndMax ? Next::Drained : Next::Wait;
}

std::optional<TimePoint> WorkerEnding::next_deadline(const Rest& rest, TimePoint now) const {
  if (rest.output_ended) return std::nullopt;
  const TimePoint at = died_ + (told_ ? kOutputEndMax : kOutputDelayMax);
  return now < at ? std::optional(at) : std::nullopt;
}

}  // namespace train
