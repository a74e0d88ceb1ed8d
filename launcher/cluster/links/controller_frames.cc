#include "launcher/cluster/links/controller_frames.h"

#include <chrono>

#include "launcher/cluster/links/start_frames.h"
#include "lib/base/secrets.h"

namespace train {
namespace {

/// Decode `frame` as Message and make an event of it. One that names a rank names one of `ranks`.
template <class Message, class Make>
std::optional<RunEvent> event_of(const Frame& frame, int ranks, Make&& make) {
  auto message = decode_of_rank<Message>(frame, ranks);
  if (!message) return std::nullopt;
  return RunEvent(make(*message));
}

AttemptStarted started_of(const Frame& frame, NodeId node, const WorkersStarted& message) {
  AttemptStarted event{frame.attempt, node, {}, message.stood_by};
  for (const StartedWorker& worker : message.workers)
    event.pids.emplace_back(Rank{worker.rank}, worker.pid);
  return event;
}

SupervisorAttached attached_of(const Frame& frame, NodeId node, const AttemptSnapshot& message) {
  SupervisorAttached event{frame.attempt, node,
                           message.phase != "spawned" && message.phase != "prepared"};
  for (const LivingWorker& worker : message.alive)
    event.ranks.push_back({Rank{worker.rank}, worker.joined, worker.reported});
  event.settled_checkpoint = message.settled_checkpoint;
  return event;
}

}  // namespace

std::optional<RunEvent> to_event(NodeId node, const Frame& frame, int ranks) {
  const Attempt attempt = frame.attempt;
  switch (frame.type) {
    case MessageType::ReportBatch:
      return event_of<ReportBatch>(frame, ranks, [&](const ReportBatch& m) {
        return RankReported{attempt, Rank{m.rank}, m.first_ordinal + m.count - 1};
      });
    case MessageType::Prepared:
      return event_of<Prepared>(frame, ranks, [&](const Prepared& m) {
        return AttemptPrepared{attempt, node, m.master_port};
      });
    case MessageType::WorkersStarted:
      return event_of<WorkersStarted>(
          frame, ranks, [&](const WorkersStarted& m) { return started_of(frame, node, m); });
    case MessageType::StartFailed:
      return event_of<StartFailed>(frame, ranks, [&](const StartFailed& m) {
        return StartRefused{attempt, node, Rank{m.rank},
                            Error{errc_of(m.code), redacted(m.message), redacted(m.hint)}};
      });
    case MessageType::WorkerJoined:
      return event_of<WorkerJoined>(frame, ranks, [&](const WorkerJoined& m) {
        return RankJoined{attempt, Rank{m.rank}};
      });
    case MessageType::WorkerExited:
      return event_of<WorkerExited>(frame, ranks, [&](const WorkerExited& m) {
        return RankExited{attempt, Rank{m.rank}, shown(m.end)};
      });
    case MessageType::GroupGone:
      return NodeGroupGone{attempt, node};
    case MessageType::AttemptSnapshot:
      return event_of<AttemptSnapshot>(
          frame, ranks, [&](const AttemptSnapshot& m) { return attached_of(frame, node, m); });
    case MessageType::AttemptLost:
      return event_of<AttemptLost>(frame, ranks, [&](const AttemptLost& m) {
        return SupervisorLost{attempt, node, redacted(m.reason), m.standby};
      });
    case MessageType::WorkerPaused:
      return event_of<WorkerPaused>(frame, ranks, [&](const WorkerPaused& m) {
        return RankPaused{attempt, Rank{m.rank}, m.ordinal, m.checkpoint_index, m.arrived};
      });
    case MessageType::ShardWritten:
      return event_of<ShardWritten>(frame, ranks, [&](const ShardWritten& m) {
        return ShardStaged{attempt, shown(m)};
      });
    case MessageType::CollectiveJoin:
      return event_of<CollectiveJoin>(frame, ranks, [&](const CollectiveJoin& m) {
        return CollectiveJoined{attempt, Rank{m.rank}, m.sequence, m.name, m.data};
      });
    case MessageType::CollectiveAnswered:
      return event_of<CollectiveAnswered>(frame, ranks, [&](const CollectiveAnswered& m) {
        return CollectiveSettled{attempt, m.sequence, m.parts, m.error};
      });
    case MessageType::NodeDraining:
      return event_of<NodeDraining>(frame, ranks, [&](const NodeDraining& m) {
        return NodeDrain{node, milliseconds(m.grace_ms), redacted(m.reason)};
      });
    default:
      return std::nullopt;  // the driver's, or of a newer protocol
  }
}

Frame to_frame(const StopGroup& action) {
  const auto grace = std::chrono::duration_cast<milliseconds>(action.grace);
  return encode(StopWorkers{grace.count(), action.reason}, action.attempt);
}

Frame to_frame(const Pause& action) {
  static constexpr const char* kSteps[] = {"pause", "advance", "finish"};
  return encode(PauseWorkers{kSteps[static_cast<int>(action.step)], action.ordinal, action.reason,
                             action.at_checkpoint},
                action.attempt);
}

Frame to_frame(const SendCollective& action) {
  return encode(CollectiveResult{action.sequence, *action.parts, action.error}, action.attempt);
}

Frame to_frame(const TellCheckpoint& action, const std::vector<std::string>& keep) {
  return encode(CheckpointOutcome{action.index, action.path, action.error, keep}, action.attempt);
}

}  // namespace train
