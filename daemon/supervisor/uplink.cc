#include "daemon/supervisor/uplink.h"

#include <algorithm>

#include "daemon/supervisor/output_pump.h"

namespace train {

void Uplink::connect(Connection& link) {
  if (link_ != nullptr) link_->close();
  link_ = &link;
}

bool Uplink::disconnect(const Connection& link) {
  if (link_ != &link) return false;
  link_ = nullptr;
  return true;
}

void Uplink::send(const Frame& frame) {
  if (link_ != nullptr) link_->send(frame);
}

void Uplink::say(Frame frame) {
  send(frame);
  said_.push_back(std::move(frame));
}

void Uplink::say_everything_again(const AttemptSnapshot& snapshot) {
  send(snapshot);
  // Reports and parts first: an exit or the group's end says that nothing of it is missing.
  for (auto& [rank, seat] : seats_) {
    for (const auto& [ordinal, frame] : seat.reports.frames()) send(frame);
    for (const auto& [index, frame] : seat.unsettled_parts) send(frame);
    for (const auto& [sequence, frame] : seat.unanswered_collectives) send(frame);
    OutputPump::send_again(seat);
  }
  for (const Frame& frame : said_) {
    if (frame.type != MessageType::GroupGone)
      send(frame);
    else if (!gone_waits_)
      scope_.spawn("say again that the group is gone", say_gone_again(frame));
  }
  changed_.notify();
}

bool Uplink::output_is_sent() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const auto& entry) {
    const auto& streams = entry.second.streams;
    return std::all_of(streams.begin(), streams.end(), [](const OutputStream& stream) {
      return stream.ended ? stream.end_sent : stream.sent == stream.spool.total();
    });
  });
}

// After the output: it says that nothing of that is missing either.
asio::awaitable<void> Uplink::say_gone_again(Frame gone) {
  gone_waits_ = true;
  while (!output_is_sent()) {
    if (!co_await changed_.wait_until(TimePoint::max())) break;
  }
  gone_waits_ = false;
  send(gone);
}

}  // namespace train
