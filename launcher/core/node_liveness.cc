#include "launcher/core/node_liveness.h"

#include <algorithm>

namespace train {
namespace {

constexpr Duration kConnectLimit = seconds(5);
constexpr Duration kRedialMax = seconds(1);
constexpr Duration kFirstRedial = milliseconds(5);  // a private traind is about to listen

}  // namespace

NodeLiveness::NodeLiveness(const LivenessLimits& limits, bool has_workers, TimePoint now)
    : limits_(limits),
      redial_max_(std::clamp<Duration>((limits.dead_after - limits.suspect_after) / 4,
                                       milliseconds(100), kRedialMax)),
      redial_(kFirstRedial),
      try_limit_(redial_max_),
      dialled_at_(now),
      last_heard_(now),
      frame_at_(now),
      beat_at_(now),
      known_(has_workers),
      lost_(!has_workers) {}

Duration NodeLiveness::connect_limit() const {
  if (!known_) return kConnectLimit;
  const Duration silent = dialled_at_ - std::max(last_heard_, away_at_);
  return std::max(redial_max_, std::min(try_limit_, limits_.dead_after - silent));
}

std::optional<Duration> NodeLiveness::handshake_limit() const {
  return known_ ? std::optional(std::max(2 * redial_max_, connect_limit())) : std::nullopt;
}

void NodeLiveness::connected(TimePoint now) {
  frame_at_ = beat_at_ = now;
  try_limit_ = redial_max_;
  silent_ = false;
}

void NodeLiveness::attached() {
  known_ = true;
  lost_ = false;
}

NodeLiveness::Next NodeLiveness::tick(TimePoint now) {
  if (now - frame_at_ >= limits_.suspect_after) {
    silent_ = true;
    return Next::Close;
  }
  if (now < beat_at_) return Next::Wait;
  beat_at_ = now + limits_.heartbeat_every;
  return Next::Beat;
}

TimePoint NodeLiveness::next_deadline() const {
  return std::min(beat_at_, frame_at_ + limits_.suspect_after);
}

NodeLiveness::Verdict NodeLiveness::disconnected(Cause cause, TimePoint now) {
  const bool away = cause == Cause::Away;
  if (away) away_at_ = now;  // its machine answered
  if (!away) try_limit_ = std::min(2 * try_limit_, kConnectLimit);
  Verdict verdict;
  verdict.silent = now - (away ? last_heard_ : std::max(last_heard_, away_at_));
  verdict.lost = !lost_ && verdict.silent >= (away ? limits_.away_limit : limits_.dead_after);
  lost_ |= verdict.lost;
  if (now - dialled_at_ > redial_max_) redial_ = kFirstRedial;
  verdict.dial_in = redial_;
  redial_ = std::min<Duration>(redial_ * 2, redial_max_);
  return verdict;
}

}  // namespace train
