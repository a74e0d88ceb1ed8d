// Feeds what a peer can send: bytes in any pieces to the frame decoder, and any payload to the
// codec of every message. libFuzzer; built with clang and TRAIN_FUZZ=ON, see docs/testing.md.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/pmix_messages.h"
#include "lib/wire/reports.h"
#include "lib/wire/worker_messages.h"

namespace {

using namespace train;

/// Decode as `Message`. A decoded message must survive another round trip.
template <class Message>
void decode_one(const Frame& frame) {
  if (frame.type != Message::kType) return;
  const auto message = decode<Message>(frame);
  if (!message) return;
  const Frame again = encode(*message, frame.attempt);
  const auto twice = decode<Message>(again);
  if (!twice || encode(*twice, frame.attempt).payload != again.payload) std::abort();
}

template <class... Messages>
void decode_as_its_type(const Frame& frame) {
  (decode_one<Messages>(frame), ...);
}

void decode_all(const Frame& frame) {
  decode_as_its_type<
      Hello, HelloReply, Refused, Heartbeat, HeartbeatAck, AttachRun, NodeOffer, PrepareAttempt,
      AttemptLost, DetachRun, LauncherState, SupervisorHello, NodeDraining, DrainNode,
      DetachController, DetachedController, ControllerEnded, NodeStatus, ClaimRoom, KeptWorkers,
      PrepareFailover, FailoverAnswer, CancelFailover, AskLauncher, LauncherTold, Prepared,
      StartWorkers, WorkersStarted, StartFailed, WorkerJoined, WorkerExited, GroupGone, StopWorkers,
      PauseWorkers, WorkerPaused, ReportBatch, AckReports, ShardWritten, CallWorkers,
      WorkerAnswered, CheckpointOutcome, OutputChunk, AckOutput, CollectiveJoin, CollectiveResult,
      WorkerResult, ReleaseAttempt, AttemptSnapshot, CollectiveAnswered, NodeSetupEnded,
      StartIngest, StopIngest, IngestUp, IngestLoad, IngestEnded, TellIngestRoster, WorkerHello,
      Welcome, CheckpointStaged, OnceBegin, OnceReply, OnceEnd, WorkerError, WorkerGoodbye,
      GoodbyeAck, TakeMemoryProfile, AllocationStacks, ServePmix, PmixServed, PmixFence,
      PmixFenceOver, PmixNotice>(frame);
  if (frame.type == MessageType::ReportBatch) {
    if (const auto batch = decode<ReportBatch>(frame)) (void)read_reports(*batch, 0);
  }
}

/// Feed `bytes` in pieces whose sizes depend on `seed`, and decode every frame. Before a hello,
/// frames must be small, and the reader must not buffer more than one of them.
void feed_in_pieces(std::string_view bytes, std::uint8_t seed) {
  constexpr std::size_t kPieceMax = 64;
  const bool before_hello = seed % 2 == 1;
  FrameReader reader;
  if (before_hello) reader.set_payload_limit(kHelloPayloadBytesMax);
  std::size_t piece = seed % 23 + 1u;
  while (!bytes.empty()) {
    const std::size_t size = std::min(piece, bytes.size());
    reader.feed(bytes.substr(0, size));
    bytes.remove_prefix(size);
    piece = piece * 7 % 61 + 1;
    for (;;) {
      const auto frame = reader.next();
      if (!frame) return;  // the stream is invalid
      if (!*frame) break;
      if (before_hello && (*frame)->payload.size() > kHelloPayloadBytesMax) std::abort();
      decode_all(**frame);
    }
    if (before_hello &&
        reader.buffered_bytes() > kHelloPayloadBytesMax + kFrameHeaderBytes + kPieceMax)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (data[0] % 2 == 0) {
    feed_in_pieces(bytes.substr(2), data[1]);
    return 0;
  }
  // Wrap the payload in a valid frame of the type that the input names, because the checksum keeps
  // random bytes from the codec.
  const auto type = static_cast<MessageType>(
      static_cast<std::uint16_t>((data[0] >> 1) % 3 * 0x100 + data[1] % 0x60));
  std::string stream;
  append_frame(Frame{.type = type, .attempt = Attempt{1}, .payload = std::string(bytes.substr(2))},
               stream);
  feed_in_pieces(stream, data[1]);
  return 0;
}
