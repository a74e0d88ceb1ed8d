#include "daemon/supervisor/uplink.h"

#include <algorithm>

#include "daemon/supervisor/output/output_pump.h"

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

void Uplink::say_joined(const WorkerJoined& message) {
  const auto [known, first] = joined_.try_emplace(message.rank, said_.size());
  if (first) return say(message);
  said_[known->second] = encode(message, attempt_);
  send(said_[known->second]);
}

void Uplink::say_last(Frame frame) {
  last_ = std::move(frame);
  last_waits_ = true;
  output_moved();
}

void Uplink::say_everything_again(const AttemptSnapshot& snapshot,
                                  const std::vector<AnsweredCollectives::SharedResult>& answered) {
  send(snapshot);
  // Send reports and shards first: an exit or the group's end implies that none of them is missing.
  for (auto& [rank, slot] : slots_) {
    for (const auto& [report_seq, frame] : slot.reports.frames()) send(frame);
    for (const auto& [checkpoint_seq, frame] : slot.unresolved_shards) send(frame);
    for (const auto& [sequence, frame] : slot.unanswered_collectives) send(frame);
    for (const auto& [request, frame] : slot.unanswered_asks) send(frame);
    OutputPump::send_again(slot);
  }
  for (const auto& result : answered) send(CollectiveAnswered{*result});
  for (const Frame& frame : said_) send(frame);
  last_waits_ = last_.has_value();
  output_moved();
}

bool Uplink::output_is_sent() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const auto& entry) {
    const auto& streams = entry.second.streams;
    return std::all_of(streams.begin(), streams.end(), [](const OutputStream& stream) {
      return stream.ended ? stream.end_sent : stream.sent == stream.spool.total();
    });
  });
}

void Uplink::output_moved() {
  if (!last_waits_ || !output_is_sent()) return;
  last_waits_ = false;
  send(*last_);
}

}  // namespace train
