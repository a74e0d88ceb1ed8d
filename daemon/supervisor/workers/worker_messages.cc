#include "daemon/supervisor/workers/worker_messages.h"

#include <fmt/format.h>

#include <utility>

#include "daemon/supervisor/workers/worker_frames.h"

namespace train {

/// Make sure that there is room for what is kept for this worker: its reports until they are
/// acknowledged, all else until the attempt ends.
Result<Unit> WorkerMessages::keep_for(WorkerSlot& slot, const Frame& frame) {
  constexpr std::size_t kFrameBytes = 256;  // what a small frame takes in memory
  if (frame.type != MessageType::ReportBatch) slot.kept_bytes += frame.payload.size() + kFrameBytes;
  const std::size_t reports =
      frame.type == MessageType::ReportBatch ? frame.payload.size() + slot.reports.bytes() : 0;
  if (reports <= kWorkerBytesMax && slot.kept_bytes <= kWorkerBytesMax) return Unit{};
  return Error{Errc::ResourceExhausted,
               fmt::format("more than {} bytes that nobody has acknowledged", kWorkerBytesMax)};
}

namespace {

/// Return whether only workers that train may say this.
bool is_of_training(MessageType type) {
  return type == MessageType::ReportBatch || type == MessageType::CheckpointStaged ||
         type == MessageType::CollectiveJoin || type == MessageType::AskCheckpoints ||
         type == MessageType::WorkerPaused || type == MessageType::CheckpointPosition ||
         type == MessageType::WorkerResult || type == MessageType::OnceBegin ||
         type == MessageType::OnceEnd;
}

}  // namespace

/// Keep a call until it is answered, and pass it on: once, however often the worker says it.
Result<Unit> WorkerMessages::pass_on(std::uint64_t number, const Frame& call,
                                     std::map<std::uint64_t, Frame>& unanswered) {
  if (const auto known = unanswered.find(number); known != unanswered.end()) {
    if (known->second.payload == call.payload) return Unit{};
    return Error{
        Errc::Protocol,
        fmt::format("call {} has no answer yet, and was made again with other data", number)};
  }
  TRY_VOID(check_calls(unanswered.size(), call.payload.size()));
  unanswered[number] = call;
  parts_.uplink.send(call);
  return Unit{};
}

Result<Unit> WorkerMessages::received(Rank rank, Frame frame) {
  WorkerSlot& slot = parts_.slots.at(rank);
  frame.attempt = attempt_;
  if (!slot.ranks.trains() && is_of_training(frame.type))
    return Error{Errc::Protocol,
                 "only workers of the first role report, make checkpoints and "
                 "take part in collectives"};
  if (frame.type != MessageType::WorkerError && frame.type != MessageType::WorkerGoodbye &&
      frame.type != MessageType::CheckpointPosition &&
      frame.type != MessageType::AllocationStacks && frame.type != MessageType::WorkerAnswered)
    slot.numbering_begun = true;
  switch (frame.type) {
    case MessageType::ReportBatch: {
      TRY(const ReportBatch batch, decode_from<ReportBatch>(rank, frame));
      TRY_VOID(check_reports(batch, slot.reports.last_report_seq()));
      TRY_VOID(keep_for(slot, frame));
      slot.reports.add(batch.first_report_seq + batch.count - 1, frame);
      parts_.uplink.send(frame);
      return Unit{};
    }
    case MessageType::CheckpointStaged: {
      TRY(CheckpointStaged message, decode<CheckpointStaged>(frame));
      TRY_VOID(check_staged(parts_.checkpoints.staging_folder(rank), message));
      const std::uint64_t number = message.checkpoint_seq;
      if (slot.staging.contains(number) || slot.unresolved_shards.contains(number))
        return Error{Errc::Protocol, fmt::format("checkpoint {} was staged twice", number)};
      if (slot.staging.size() + slot.unresolved_shards.size() >= kUnresolvedShardsMax)
        return Error{Errc::ResourceExhausted,
                     fmt::format("more than {} checkpoints at a time", kUnresolvedShardsMax)};
      slot.staging.insert(number);
      parts_.scope.spawn("stage", stage(rank, std::move(message)));
      return Unit{};
    }
    case MessageType::CollectiveJoin: {
      TRY(const CollectiveJoin message, decode_from<CollectiveJoin>(rank, frame));
      if (message.sequence > kBackendCollectives)
        return Error{Errc::Protocol, "a collective call of a worker has a supervisor's number"};
      return pass_on(message.sequence, frame, slot.unanswered_collectives);
    }
    case MessageType::AskCheckpoints: {
      TRY(const AskCheckpoints message, decode_from<AskCheckpoints>(rank, frame));
      return pass_on(message.request, frame, slot.unanswered_asks);
    }
    case MessageType::WorkerPaused: {
      TRY_VOID(decode_from<WorkerPaused>(rank, frame));
      TRY_VOID(keep_for(slot, frame));
      parts_.uplink.say(std::move(frame));
      return Unit{};
    }
    case MessageType::CheckpointPosition: {  // lost with a link: the launcher asks again
      TRY_VOID(decode_from<CheckpointPosition>(rank, frame));
      parts_.uplink.send(frame);
      return Unit{};
    }
    case MessageType::WorkerResult: {
      TRY_VOID(decode_from<WorkerResult>(rank, frame));
      TRY_VOID(keep_for(slot, frame));
      parts_.uplink.say(std::move(frame));
      return Unit{};
    }
    case MessageType::WorkerError: {
      TRY(WorkerError message, decode<WorkerError>(frame));
      slot.error = std::move(message.error);
      return Unit{};
    }
    case MessageType::OnceBegin: {
      TRY(const OnceBegin message, decode<OnceBegin>(frame));
      TRY_VOID(keep_for(slot, frame));
      reply(once_.begin(rank, message.name));
      return Unit{};
    }
    case MessageType::OnceEnd: {
      TRY(const OnceEnd message, decode<OnceEnd>(frame));
      TRY_VOID(keep_for(slot, frame));
      reply(once_.end(message));
      return Unit{};
    }
    case MessageType::WorkerGoodbye: {
      TRY(const WorkerGoodbye message, decode<WorkerGoodbye>(frame));
      const bool again = std::exchange(slot.said_goodbye, true);
      slot.told_to_stop |= message.told_to_stop;
      parts_.left(rank);
      parts_.send(rank, encode(GoodbyeAck{}, attempt_));
      if (message.stays && !again) parts_.stays(rank);
      return Unit{};
    }
    case MessageType::AllocationStacks: {
      TRY(AllocationStacks message, decode<AllocationStacks>(frame));
      return parts_.memory_profiles.received(rank, std::move(message));
    }
    case MessageType::WorkerAnswered: {  // lost with a link, as the call is
      TRY(WorkerAnswered answer, decode_from<WorkerAnswered>(rank, frame));
      return parts_.calls.received(std::move(answer));
    }
    default:
      return Unit{};
  }
}

void WorkerMessages::reply(const OncePerNode::Replies& replies) {
  for (const auto& [rank, reply] : replies) parts_.send(rank, encode(reply, attempt_));
}

asio::awaitable<void> WorkerMessages::stage(Rank rank, CheckpointStaged message) {
  const ShardWritten shard = co_await parts_.checkpoints.store(rank, std::move(message));
  WorkerSlot& slot = parts_.slots.at(rank);
  const Frame frame = encode(shard, attempt_);
  slot.unresolved_shards[shard.checkpoint_seq] = frame;
  parts_.uplink.send(frame);
  slot.staging.erase(shard.checkpoint_seq);
  parts_.changed.notify();
}

}  // namespace train
