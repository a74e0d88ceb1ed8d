// Checks a worker's frames before they take effect, because its program may be anything. The rank
// is that of the connection, whatever the frame says. A folder to be moved and removed must be one
// that the supervisor itself gave the worker. What is kept for a worker has a limit.
#pragma once

#include <string>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/worker_messages.h"

namespace train {

/// Limit on a worker's frames that nobody has acknowledged or answered. Our SDK blocks at 8 MiB of
/// reports; we end the connection of a program that does not wait.
inline constexpr std::size_t kWorkerBytesMax = 64u << 20;
/// Limit on a text that is passed on together with something else in one frame.
inline constexpr std::size_t kWorkerTextBytesMax = 1u << 20;
inline constexpr std::size_t kUnansweredCallsMax = 256;
inline constexpr std::size_t kCallBytesMax = 128u << 10;  // the SDK: 64 KiB of data, and a name
inline constexpr std::size_t kUnresolvedShardsMax = 64;   // the SDK waits with the third

/// Decode the message, and put the rank of the connection into it and into `frame`, if it fits.
template <class Message>
Result<Message> decode_from(Rank rank, Frame& frame) {
  TRY(Message message, decode<Message>(frame));
  if (message.rank != rank.value) {
    message.rank = rank.value;
    frame = encode(message, frame.attempt);
    if (frame.payload.size() > kFramePayloadBytesMax)  // traind would drop our link
      return Error{Errc::Protocol, "a message of a worker is too large to be passed on"};
  }
  return message;
}

/// Check that the batch holds reports, and leaves none out after `last`.
Result<Unit> check_reports(const ReportBatch& batch, std::uint64_t last);
/// Check that a worker that waits for `unanswered` calls may make one more.
Result<Unit> check_calls(std::size_t unanswered, std::size_t bytes);
/// Check that the folder that a worker says it has filled is the one that it was given for this
/// checkpoint, STAGING/ckpt-N, and that its metadata is not too long to be passed on.
Result<Unit> check_staged(const std::string& staging_folder, const CheckpointStaged& staged);

}  // namespace train
