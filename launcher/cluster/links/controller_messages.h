// Translates messages from nodes into the controller's events, and the controller's orders into
// messages. Pure; the simulation uses it too.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/run_events.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/decode_any.h"

namespace train {

/// The sender of a message: a node's traind, or the supervisor of an attempt there.
struct Sender {
  Attempt attempt;
  NodeId node;
  auto operator<=>(const Sender&) const = default;
};

/// All messages from nodes, except the link's own.
using NodeMessage =
    AnyOf<Prepared, WorkersStarted, StartFailed, WorkerJoined, WorkerExited, GroupGone,
          WorkerPaused, ReportBatch, ShardWritten, StorageTrouble, OutputChunk, CollectiveJoin,
          CollectiveAnswered, WorkerResult, WorkerSamples, DataSamples, StacksTaken, ProfileTaken,
          WorkerAnswered, CheckpointPosition, AttemptSnapshot, AttemptLost, NodeDraining,
          NodeStatus, ReadFile, FileBytes, ShardKept, ValidationEnded, AskCheckpoints, IngestUp,
          IngestLoad, IngestEnded, NodeSetupEnded, FailoverAnswer>;

/// Decode a frame. Protocol if it cannot be decoded, or if it names a rank that an attempt of
/// `ranks` cannot have.
Result<NodeMessage> decode_node_message(const Frame& frame, int ranks);

AttemptPrepared to_event(const Sender& from, const Prepared& message);
AttemptStarted to_event(const Sender& from, const WorkersStarted& message);
StartRefused to_event(const Sender& from, const StartFailed& message);
RankJoined to_event(const Sender& from, const WorkerJoined& message);
RankExited to_event(const Sender& from, const WorkerExited& message);
NodeGroupGone to_event(const Sender& from, const GroupGone& message);
RankPaused to_event(const Sender& from, const WorkerPaused& message);
RankReported to_event(const Sender& from, const ReportBatch& message);
RanksSampled to_event(const Sender& from, WorkerSamples message);
ShardStaged to_event(const Sender& from, const StagedShard& message);
CheckpointPositionTold to_event(const Sender& from, const CheckpointPosition& message);
CollectiveJoined to_event(const Sender& from, const CollectiveJoin& message);
CollectiveResolved to_event(const Sender& from, const CollectiveAnswered& message);
SupervisorAttached to_event(const Sender& from, const AttemptSnapshot& message);
SupervisorLost to_event(const Sender& from, const AttemptLost& message);
IngestServes to_event(const Sender& from, const IngestUp& message);
IngestSampled to_event(const Sender& from, const IngestLoad& message);
IngestGone to_event(const Sender& from, const IngestEnded& message);
DatasetsRead to_event(const Sender& from, const DataSamples& message);
NodeDrain to_event(const Sender& from, const NodeDraining& message);

StopWorkers message_of(const StopGroup& action);
PauseWorkers message_of(const Pause& action);
RequestCheckpoint message_of(const OrderCheckpoint& action);
CollectiveResult message_of(const SendCollective& action);
StopIngest message_of(const EndIngest& action);
TellIngestRoster message_of(const SendRoster& action);
/// `keep`: see CheckpointOutcome.
CheckpointOutcome message_of(const TellCheckpoint& action, const std::vector<std::string>& keep);

/// Encodes the result of a collective call once for all nodes: it has what each rank gave.
class CollectiveFrames {
 public:
  /// Return the frame for the node. It is valid until the next call.
  const Frame& of(const SendCollective& action);

 private:
  std::optional<SendCollective> newest_;
  Frame frame_;
};

}  // namespace train
