// Frames of the daemons as the controller's events, and its orders as frames. Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <type_traits>

#include "launcher/core/run_events.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"

namespace train {

/// What a frame of `node` tells the controller; none where it has nothing for it, or does not
/// decode. Reports, output and results are the driver's to keep: of those, reports are told as
/// well.
/// `ranks`: how many an attempt of this run can have.
std::optional<RunEvent> to_event(NodeId node, const Frame& frame, int ranks);

/// The message, unless it does not decode, or names a rank that an attempt of `ranks` cannot have.
template <class Message>
std::optional<Message> decode_of_rank(const Frame& frame, int ranks) {
  const auto known = [ranks](const auto& named) {
    const std::int32_t rank = Rank(named.rank).value;
    return rank >= 0 && rank < ranks;
  };
  auto message = decode<Message>(frame);
  if (!message) return std::nullopt;
  if constexpr (requires { message->rank; }) {
    if (!known(*message)) return std::nullopt;
  }
  if constexpr (requires { message->alive; }) {
    if (!std::ranges::all_of(message->alive, known)) return std::nullopt;
  }
  if constexpr (std::is_same_v<Message, WorkersStarted>) {
    if (!std::ranges::all_of(message->workers, known)) return std::nullopt;
  }
  return std::move(*message);
}

Frame to_frame(const StopGroup& action);
Frame to_frame(const Pause& action);
Frame to_frame(const SendCollective& action);
/// `keep`: CheckpointOutcome says what.
Frame to_frame(const TellCheckpoint& action, const std::vector<std::string>& keep);

}  // namespace train
