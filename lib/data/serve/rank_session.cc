#include "lib/data/serve/rank_session.h"

#include <arrow/record_batch.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <new>

namespace train::data {
namespace {

/// Wait until the channel has something to do, or the session is to stop.
void wait_for(const RankChannel& channel, int stop) {
  const auto events = static_cast<short>(channel.wants_to_write() ? POLLIN | POLLOUT : POLLIN);
  std::array<pollfd, 2> entries{pollfd{.fd = channel.descriptor(), .events = events, .revents = 0},
                                pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
  ::poll(entries.data(), entries.size(), -1);
}

}  // namespace

Result<Unit> RankSession::serve() {
  while (!stopping_) {
    TRY_VOID(channel_.exchange());
    TRY_VOID(take_frames());
    if (asks_.empty() || !channel_.has_room()) {
      wait_for(channel_, stop_);
      continue;
    }
    // Of those that wait, what the rank needs first.
    const auto next =
        std::min_element(asks_.begin(), asks_.end(), [](const auto& a, const auto& b) {
          return std::pair(a.step, a.sequence) < std::pair(b.step, b.sequence);
        });
    const Ask ask = std::move(*next);
    asks_.erase(next);
    TRY_VOID(answer(ask));
  }
  return Unit{};
}

Result<Unit> RankSession::take_frames() {
  ServeFrame frame;
  while (true) {
    TRY(const bool whole, channel_.next(frame));
    if (!whole) return Unit{};
    TRY_VOID(take(frame));
  }
}

Result<Unit> RankSession::take(const ServeFrame& frame) {
  switch (frame.type) {
    case ServeType::OpenPass: {
      TRY(const OpenPass pass, read_open_pass(frame.fields));
      return open(pass);
    }
    case ServeType::Ask: {
      TRY(Ask ask, read_ask(frame.fields));
      if (asks_.size() >= kAsksMax)
        return Error{Errc::ResourceExhausted, "a rank asks for too much at once"};
      asks_.push_back(std::move(ask));
      return Unit{};
    }
    case ServeType::Release: {
      TRY(const Release release, read_release(frame.fields));
      return channel_.release(release.slot);
    }
    case ServeType::Answer:
    case ServeType::Failed:
    case ServeType::Ping:
    case ServeType::Pong:
      break;
  }
  return Error{Errc::Protocol,
               fmt::format("a rank sends a frame of type {}", static_cast<int>(frame.type))};
}

Result<Unit> RankSession::open(const OpenPass& pass) {
  asks_.clear();
  reader_.reset();
  channel_.begin_pass(pass.credit_bytes);
  auto reader = open_(pass);
  if (reader.has_error()) return channel_.send(Failed{0, std::move(reader).error()});
  reader_ = std::move(*reader);
  return Unit{};
}

Result<Unit> RankSession::answer(const Ask& ask) {
  if (!reader_) return Unit{};  // the rank has been told that no ask can be answered
  auto part = read(ask);
  if (part.has_error()) return channel_.send(Failed{ask.sequence, std::move(part).error()});
  const std::int64_t rows = part->rows->num_rows();
  auto sent = channel_.send({.sequence = ask.sequence,
                             .bad = std::move(part->bad),
                             .counts = std::move(part->counts),
                             .lost = std::move(part->lost),
                             .operators = std::move(part->operators)},
                            *part->rows);
  if (sent.has_error()) return channel_.send(Failed{ask.sequence, std::move(sent).error()});
  handed_over_.rows += rows;
  handed_over_.bytes += *sent;
  return Unit{};
}

Result<PartRows> RankSession::read(const Ask& ask) {
  try {
    return reader_->read(ask.step, ask.addresses);
  } catch (const std::bad_alloc&) {
    return Error{Errc::ResourceExhausted,
                 fmt::format("an ingest worker has no memory for step {}", ask.step),
                 "give ingest workers more memory, or use a smaller batch_size"};
  }
}

}  // namespace train::data
