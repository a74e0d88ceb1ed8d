#include "lib/wire/codec.h"

#include <fmt/format.h>

#include "lib/wire/codec_templates.h"

namespace train {

namespace detail {

Result<msgpack::object_handle> unpack_payload(std::string_view payload) {
  // The frame has at most 4 MiB; no array or map may claim more than 65,536 elements.
  const msgpack::unpack_limit limit(65536, 65536, kFramePayloadBytesMax, kFramePayloadBytesMax, 0,
                                    16);
  try {
    std::size_t offset = 0;
    auto handle = msgpack::unpack(payload.data(), payload.size(), offset, nullptr, nullptr, limit);
    if (offset != payload.size()) return Error{Errc::Protocol, "it is followed by extra bytes"};
    return handle;
  } catch (const std::exception& e) {  // msgpack::unpack_error and its size limits
    return Error{Errc::Protocol,
                 fmt::format("it is not MessagePack within the limits: {}", e.what())};
  }
}

Error bad_message(MessageType type, std::string_view why) {
  return Error{Errc::Protocol, fmt::format("bad {} message: {}", to_string(type), why)};
}

}  // namespace detail

std::string to_string(MessageType type) {
  switch (type) {
#define TRAIN_NAME(name)  \
  case MessageType::name: \
    return #name
    TRAIN_NAME(Hello);
    TRAIN_NAME(HelloReply);
    TRAIN_NAME(Refused);
    TRAIN_NAME(Heartbeat);
    TRAIN_NAME(HeartbeatAck);
    TRAIN_NAME(AttachRun);
    TRAIN_NAME(NodeOffer);
    TRAIN_NAME(PrepareAttempt);
    TRAIN_NAME(AttemptLost);
    TRAIN_NAME(DetachRun);
    TRAIN_NAME(LauncherState);
    TRAIN_NAME(SupervisorHello);
    TRAIN_NAME(NodeDraining);
    TRAIN_NAME(DrainNode);
    TRAIN_NAME(DetachController);
    TRAIN_NAME(DetachedController);
    TRAIN_NAME(ControllerEnded);
    TRAIN_NAME(NodeStatus);
    TRAIN_NAME(ClaimRoom);
    TRAIN_NAME(PrepareFailover);
    TRAIN_NAME(FailoverAnswer);
    TRAIN_NAME(CancelFailover);
    TRAIN_NAME(AskLauncher);
    TRAIN_NAME(LauncherTold);
    TRAIN_NAME(Prepared);
    TRAIN_NAME(StartWorkers);
    TRAIN_NAME(WorkersStarted);
    TRAIN_NAME(StartFailed);
    TRAIN_NAME(WorkerJoined);
    TRAIN_NAME(WorkerExited);
    TRAIN_NAME(GroupGone);
    TRAIN_NAME(StopWorkers);
    TRAIN_NAME(PauseWorkers);
    TRAIN_NAME(WorkerPaused);
    TRAIN_NAME(ReportBatch);
    TRAIN_NAME(AckReports);
    TRAIN_NAME(ShardWritten);
    TRAIN_NAME(CheckpointOutcome);
    TRAIN_NAME(OutputChunk);
    TRAIN_NAME(AckOutput);
    TRAIN_NAME(CollectiveJoin);
    TRAIN_NAME(CollectiveResult);
    TRAIN_NAME(WorkerResult);
    TRAIN_NAME(ReleaseAttempt);
    TRAIN_NAME(AttemptSnapshot);
    TRAIN_NAME(CollectiveAnswered);
    TRAIN_NAME(StorageTrouble);
    TRAIN_NAME(WorkerSamples);
    TRAIN_NAME(DataSamples);
    TRAIN_NAME(NodeSetupEnded);
    TRAIN_NAME(KeptWorkers);
    TRAIN_NAME(TakeStacks);
    TRAIN_NAME(StacksTaken);
    TRAIN_NAME(TakeProfile);
    TRAIN_NAME(ProfileTaken);
    TRAIN_NAME(RequestCheckpoint);
    TRAIN_NAME(CheckpointPosition);
    TRAIN_NAME(CallWorkers);
    TRAIN_NAME(WorkerAnswered);
    TRAIN_NAME(RunValidation);
    TRAIN_NAME(ValidationEnded);
    TRAIN_NAME(AskCheckpoints);
    TRAIN_NAME(ReportedCheckpoints);
    TRAIN_NAME(ReadFile);
    TRAIN_NAME(FileBytes);
    TRAIN_NAME(KeepShard);
    TRAIN_NAME(ShardKept);
    TRAIN_NAME(StartIngest);
    TRAIN_NAME(StopIngest);
    TRAIN_NAME(IngestUp);
    TRAIN_NAME(IngestLoad);
    TRAIN_NAME(IngestEnded);
    TRAIN_NAME(IngestRoster);
    TRAIN_NAME(WorkerHello);
    TRAIN_NAME(Welcome);
    TRAIN_NAME(CheckpointStaged);
    TRAIN_NAME(OnceBegin);
    TRAIN_NAME(OnceReply);
    TRAIN_NAME(OnceEnd);
    TRAIN_NAME(WorkerError);
    TRAIN_NAME(WorkerGoodbye);
    TRAIN_NAME(GoodbyeAck);
    TRAIN_NAME(TakeMemoryProfile);
    TRAIN_NAME(AllocationStacks);
    TRAIN_NAME(ServePmix);
    TRAIN_NAME(PmixServed);
    TRAIN_NAME(PmixFence);
    TRAIN_NAME(PmixFenceOver);
    TRAIN_NAME(PmixNotice);
#undef TRAIN_NAME
  }
  return fmt::format("type {:#06x}", static_cast<std::uint16_t>(type));
}

}  // namespace train
