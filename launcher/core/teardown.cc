#include "launcher/core/teardown.h"

#include <algorithm>
#include <utility>

namespace train {

void Teardown::begin(Duration grace, std::string reason, TimePoint now) {
  kill_at_ = now + grace;
  reason_ = std::move(reason);
}

StopGroup Teardown::order_for(Attempt attempt, NodeId node, TimePoint now) const {
  return {attempt, node, std::max(Duration{0}, kill_at_ - now), reason_};
}

Teardown::Shards Teardown::shards(bool any_worker_left, TimePoint now) {
  if (!escalated_ || any_worker_left) return Shards::Awaited;
  if (!awaited_since_) awaited_since_ = now;
  if (now < *awaited_since_ + kShardsTimeout) return Shards::Awaited;
  return std::exchange(given_up_, true) ? Shards::GivenUp : Shards::GivenUpNow;
}

std::optional<TimePoint> Teardown::next_deadline() const {
  if (!awaited_since_ || given_up_) return std::nullopt;
  return *awaited_since_ + kShardsTimeout;
}

}  // namespace train
