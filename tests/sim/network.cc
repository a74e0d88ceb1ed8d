#include "tests/sim/network.h"

#include <algorithm>

namespace train::sim {

MessageType SimFrame::type() const {
  return std::visit([](const auto& message) { return std::decay_t<decltype(message)>::kType; },
                    payload);
}

void SimLink::send(int side, SimFrame frame) {
  if (cut_ || closed_[side]) return;
  const int to = 1 - side;
  deliver_in_order(to, [this, to, frame = std::move(frame)] {
    if (!cut_ && !closed_[to] && ends_[to].received) ends_[to].received(frame);
  });
}

void SimLink::close(int side) {
  if (closed_[side]) return;
  closed_[side] = true;
  if (!cut_)
    deliver_in_order(1 - side, [this, to = 1 - side] {
      if (!cut_) notify_closed(to);
    });
}

void SimLink::cut(Duration noticed_by_0, Duration noticed_by_1) {
  if (cut_) return;
  cut_ = true;
  timeline_.after(noticed_by_0, [self = shared_from_this()] { self->notify_closed(0); });
  timeline_.after(noticed_by_1, [self = shared_from_this()] { self->notify_closed(1); });
}

void SimLink::deliver_in_order(int to, std::function<void()> what) {
  const TimePoint arrival = std::max(
      last_arrival_[to], timeline_.now() + timeline_.random.between(delay_min_, delay_max_));
  last_arrival_[to] = arrival;
  timeline_.after(arrival - timeline_.now(),
                  [self = shared_from_this(), what = std::move(what)] { what(); });
}

void SimLink::notify_closed(int side) {
  if (closed_[side]) return;
  closed_[side] = true;
  if (ends_[side].closed) ends_[side].closed();
}

}  // namespace train::sim
