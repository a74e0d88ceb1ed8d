#include "tests/sim/network.h"

#include <algorithm>

namespace train::sim {
namespace {

constexpr Duration kRetransmit = milliseconds(200);  // Linux's minimum RTO
constexpr Duration kRetransmitMax = seconds(2);      // a held packet is at most this late

}  // namespace

// ---- the path

Duration SimPath::sample(Timeline& timeline, int to) const {
  Duration delay = timeline.random.between(delay_min, delay_max);
  if (loss > 0) {
    for (Duration again = kRetransmit; again < seconds(4) && timeline.random.chance(loss);
         again *= 2)
      delay += again;
  }
  if (clogged_until[to] > timeline.now()) delay += clogged_until[to] - timeline.now();
  return delay;
}

void SimPath::unblock(Timeline& timeline, int to) {
  if (!std::exchange(blocked[to], false)) return;
  for (const auto& link : std::exchange(holding, {})) {
    if (link->held_[to].empty()) {
      if (!link->held_[1 - to].empty()) holding.push_back(link);
      continue;
    }
    if (!link->held_[1 - to].empty()) holding.push_back(link);
    timeline.after(timeline.random.between(delay_min, kRetransmitMax),
                   [link, to] { link->flush(to); });
  }
}

// ---- the connection

void SimLink::send(int side, SimFrame frame) {
  if (severed_ || closed_[side] || vanished_[side]) return;
  schedule(1 - side, std::move(frame));
}

void SimLink::close(int side) {
  if (closed_[side]) return;
  closed_[side] = true;
  if (!severed_ && !vanished_[side]) schedule(1 - side, {});
}

void SimLink::cut(Duration noticed_by_0, Duration noticed_by_1) {
  if (severed_) return;
  severed_ = true;
  timeline_.after(noticed_by_0, [self = shared_from_this()] { self->notify_closed(0); });
  timeline_.after(noticed_by_1, [self = shared_from_this()] { self->notify_closed(1); });
}

void SimLink::schedule(int to, SimFrame frame) {
  const TimePoint arrival =
      std::max(last_arrival_[to], timeline_.now() + path_.sample(timeline_, to));
  last_arrival_[to] = arrival;
  timeline_.at(arrival, [self = shared_from_this(), to, frame = std::move(frame)] {
    self->arrive(to, frame);
  });
}

void SimLink::arrive(int to, const SimFrame& frame) {
  if (severed_) return;
  if (path_.blocked[to] || !held_[to].empty()) {
    if (held_[0].empty() && held_[1].empty()) path_.holding.push_back(shared_from_this());
    held_[to].push_back(frame);
    return;
  }
  take(to, frame);
}

void SimLink::take(int to, const SimFrame& frame) {
  if (vanished_[to])  // the host there does not know this connection any more
    return cut(path_.sample(timeline_, 0), path_.sample(timeline_, 1));
  if (!frame.message) return notify_closed(to);  // the end of the stream
  if (!closed_[to] && ends_[to].received) ends_[to].received(frame);
}

void SimLink::flush(int to) {
  if (path_.blocked[to]) {  // blocked again, before anything got through
    if (!held_[to].empty() && std::find(path_.holding.begin(), path_.holding.end(),
                                        shared_from_this()) == path_.holding.end())
      path_.holding.push_back(shared_from_this());
    return;
  }
  const std::vector<SimFrame> frames = std::exchange(held_[to], {});
  for (const SimFrame& frame : frames) {
    if (severed_) return;
    take(to, frame);
  }
}

void SimLink::notify_closed(int side) {
  if (closed_[side]) return;
  closed_[side] = true;
  if (ends_[side].closed) ends_[side].closed();
}

}  // namespace train::sim
