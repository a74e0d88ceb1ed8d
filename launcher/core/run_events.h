// The controller's input events and the actions that it answers with. They are plain values: a
// shell or a simulation performs the actions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/attempt_time.h"
#include "launcher/core/failure_policy.h"
#include "launcher/core/placement.h"
#include "launcher/core/run_state.h"
#include "launcher/core/shared_value.h"
#include "lib/base/error.h"
#include "lib/base/ids.h"
#include "lib/model/checkpoint_order.h"
#include "lib/model/checkpoint_shard.h"
#include "lib/model/ingest_roster.h"
#include "lib/model/node_digests.h"
#include "lib/model/pause_step.h"
#include "lib/model/pool_run.h"
#include "lib/model/rank_sample.h"
#include "lib/model/time_accounts.h"
#include "lib/model/worker_end.h"

namespace train {

/// A committed checkpoint, reduced to what decisions need.
struct CheckpointInfo {
  std::uint64_t number = 0;  // checkpoint_%06d
  std::string path;
  std::int64_t epoch = -1;  // the metric `epoch` of its report; −1: none
  bool operator==(const CheckpointInfo&) const = default;
};

/// How the free space compares to what one more checkpoint of this size needs.
struct FreeSpace {
  std::uint64_t needed = 0;           // bytes of the newest one
  std::optional<std::uint64_t> free;  // bytes; none: not known
  std::string where;
};

enum class StopKind { Interrupt, Terminate, StopCondition, Command };

// ---- events

/// A node attached, for the first time or again. address: how others reach it. attempts: those of
/// this run that have supervisors there.
struct NodeUp {
  NodeCapacity capacity;
  std::string address;
  std::vector<Attempt> attempts = {};
  bool attached = true;      // over a new link; else there is only news of what is free
  Resources owner_has = {};  // see NodeOffer
  Resources owner_wants = {};
  std::vector<PoolRun> runs = {};  // that wait there before this one
};
struct RankState {
  Rank rank;
  bool joined = false;         // its SDK is connected
  std::uint64_t reported = 0;  // report_seq of its last report
};
/// A node's supervisor can be reached, for the first time or again: messages sent to it over an
/// older link may be lost.
struct SupervisorAttached {
  Attempt attempt;
  NodeId node;
  bool has_workers = true;  // it was told to start them
  /// The state of the living workers there. The supervisor does not send acknowledged facts again,
  /// so they may be known only from this.
  std::vector<RankState> ranks = {};
  /// The newest checkpoint whose outcome the supervisor knows; 0: none.
  std::uint64_t resolved_checkpoint = 0;
  CheckpointOrder checkpoint_order = {};  // the newest that it knows; request 0: none
  std::vector<IngestPlace> ingest = {};   // where ingest workers were ordered, and not stopped
  std::uint64_t roster_version = 0;       // of the newest roster that it knows
  bool kept = false;  // it has nothing but processes of an earlier run, which wait for this attempt
};
/// A node's traind was told to drain: it takes no new workers, and its present ones must leave
/// within `grace`.
struct NodeDrain {
  NodeId node;
  Duration grace{};
  std::string reason;
};
/// The node refused or reset the connection, or was silent past its limit: its workers count as
/// lost.
struct NodeDown {
  NodeId node;
  std::string reason;
};
/// The hosts file, or the name, lists a node that it did not list before. It may answer later.
struct NodeFound {
  NodeId node;
};
/// A node is not listed any more, and dead. NodeFound comes if it is listed again.
struct NodeVanished {
  NodeId node;
};
struct AttemptPrepared {
  Attempt attempt;
  NodeId node;
  std::uint32_t master_port = 0;
  NodeDigests digests = {};               // of what it would run; empty: not wanted
  std::vector<std::uint32_t> ports = {};  // held for the workers there, by local rank
};
struct AttemptStarted {
  Attempt attempt;
  NodeId node;
  std::vector<std::pair<Rank, std::int64_t>> pids;
  int from_standby = 0;  // how many of them were standby processes
};
/// A worker could not be spawned, or the node refused.
struct StartRefused {
  Attempt attempt;
  NodeId node;
  Rank rank;
  Error error;
  bool busy = false;  // the node has no room now: another run took it, or the node drains
};
/// The rank's SDK said hello.
struct RankJoined {
  Attempt attempt;
  Rank rank;
};
struct RankExited {
  Attempt attempt;
  Rank rank;
  WorkerEnd end;
  WorkerProgress progress = {};  // its last
  Duration ago{};                // since it ended; at least, if an earlier launcher knew of it
};
/// All the node's workers have ended, and everything they sent has arrived.
struct NodeGroupGone {
  Attempt attempt;
  NodeId node;
  bool stay = false;  // their processes do, for another run; else they are reaped
};
struct SupervisorLost {
  Attempt attempt;
  NodeId node;
  std::string reason;
  bool standby = false;  // it had only standby processes
};
struct RankReported {
  Attempt attempt;
  Rank rank;
  std::uint64_t report_seq = 0;
};
/// What the supervisor of a node saw of its workers. Sent each second, and not repeated.
struct RanksSampled {
  Attempt attempt;
  std::vector<RankSample> ranks;
};
struct RankPaused {
  Attempt attempt;
  Rank rank;
  std::uint64_t report_seq = 0;
  std::uint64_t checkpoint_seq = 0;
  bool arrived = false;             // it paused where it was told to continue to
  bool checkpoint_pending = false;  // and makes a checkpoint there once it is told to
};
struct ShardStaged {
  Attempt attempt;
  StagedShard shard;
};
struct CommitFinished {
  Attempt attempt;
  std::uint64_t checkpoint_seq = 0;
  std::optional<CheckpointInfo> checkpoint;
  std::string error;
  bool no_space = false;                    // the error is a lack of space
  FreeSpace space = {};                     // after the commit and the removal of old ones
  std::vector<std::uint64_t> removed = {};  // numbers of the old ones
  bool may_come = false;                    // given up, but may yet turn out to be committed
};
/// A validation's result is on disk.
struct ValidationFinished {
  std::uint64_t number = 0;                 // of the checkpoint
  std::vector<std::uint64_t> removed = {};  // numbers of those that need not be kept any more
};
struct CollectiveJoined {
  Attempt attempt;
  Rank rank;
  std::uint64_t sequence = 0;
  std::string name, data;
};
/// An earlier launcher had answered a call, and perhaps not every rank received the answer.
struct CollectiveResolved {
  Attempt attempt;
  std::uint64_t sequence = 0;
  std::vector<std::string> parts;
  std::string error;
};
struct StopAsked {
  StopKind kind = StopKind::Command;
  std::string reason;
};
/// Somebody wants to see the stacks of these ranks; empty: of all. `why` becomes part of a file's
/// name.
struct StacksAsked {
  std::string why;
  std::vector<Rank> ranks;
};
/// What CollectStacks has led to.
struct StacksCollected {
  Attempt attempt;
  std::string why;
  std::string path = {};     // the text file with all of them
  std::string classes = {};  // a line for each class of equal stacks
  std::string error = {};    // why the file could not be written; empty: it was
  /// What the flight recorders of the ranks say: a line each, the most telling first.
  std::string flight_records = {};
  /// Ranks whose main threads wait in a collective call or for a GPU, and those that do not, with
  /// where they are. What has no stack is in neither.
  std::vector<Rank> waiting = {};
  std::vector<std::pair<Rank, std::string>> elsewhere = {};
};
/// Somebody asks for a checkpoint now.
struct CheckpointAsked {
  std::string id;  // of the request, for its answer
};
/// How far a rank has got, and why it cannot make a checkpoint, if so. It goes no further until it
/// is told where to make one.
struct CheckpointPositionTold {
  Attempt attempt;
  Rank rank;
  std::uint64_t request = 0;
  std::uint64_t reports = 0, calls = 0;
  bool has_function = false;
  std::string error = {};
};
/// An ingest worker serves.
struct IngestServes {
  Attempt attempt;
  NodeId node;
  IngestPlace place;
};
/// The process of an ingest worker's place has ended.
struct IngestGone {
  Attempt attempt;
  NodeId node;
  std::string dataset;
  std::int32_t slot = 0;
  std::string name;
  bool stopped = false;  // as it was ordered
  std::string why;
  std::uint32_t deaths = 0;
  Duration again{};    // until the supervisor starts another one
  bool often = false;  // it dies so often that this takes longer
  std::vector<std::string> last_lines = {};
};
/// How much processor time an ingest worker has used.
struct IngestSampled {
  Attempt attempt;
  NodeId node;
  std::string dataset;
  std::int32_t slot = 0;
  std::string name;
  Duration cpu{};
};
/// How long the loops of ranks have waited for rows of datasets, each since it opened it.
struct DatasetsRead {
  struct Reader {
    Rank rank;
    std::string dataset;
    Duration waited{};
    bool operator==(const Reader&) const = default;
  };
  Attempt attempt;
  std::vector<Reader> readers;
  Duration taken{};  // when, by their node's clock
};
/// The run's setup has succeeded (RunStart::sets_up): attempts may begin.
struct RunSetUp {};
struct Tick {};

using RunEvent =
    std::variant<NodeUp, NodeDown, NodeFound, NodeVanished, NodeDrain, SupervisorAttached,
                 AttemptPrepared, AttemptStarted, StartRefused, RankJoined, RankExited,
                 NodeGroupGone, SupervisorLost, RankReported, RanksSampled, RankPaused, ShardStaged,
                 CommitFinished, ValidationFinished, CollectiveJoined, CollectiveResolved,
                 StopAsked, StacksAsked, StacksCollected, CheckpointAsked, CheckpointPositionTold,
                 IngestServes, IngestGone, IngestSampled, DatasetsRead, RunSetUp, Tick>;

// ---- actions

struct Prepare {
  Attempt attempt;
  PlacedNode placed;
  bool bind_master = false;
  bool standby = false;   // for standby processes: the attempt has not begun
  Resources ingest = {};  // what ingest workers claim there, at their greatest number
  int ports_per_worker = 0;
  bool operator==(const Prepare&) const = default;
};
/// Keep room for the run on the node, in place of what was kept; see RoomClaims.
struct KeepRoom {
  NodeId node;
  QueuePlace place = {};
  int workers = 0;        // that the run has or wants; 0: keep nothing any more
  int workers_here = 0;   // for whom to keep room
  Resources ingest = {};  // what ingest workers and workers of other roles claim here
  bool operator==(const KeepRoom&) const = default;
};
struct Start {
  Attempt attempt;
  PlacedNode placed;
  SharedValue<Placement> placement;  // of the whole group
  std::string master_addr;
  std::uint32_t master_port = 0;
  std::optional<CheckpointInfo> restore;
  int restart_count = 0;
  SharedValue<std::vector<std::string>> peers = {};  // host:port of every held port, by rank
  bool operator==(const Start&) const = default;
};
struct StandBy {  // start `workers` processes that wait for the attempt
  Attempt attempt;
  NodeId node;
  int workers = 0;
  bool operator==(const StandBy&) const = default;
};
struct StopGroup {
  Attempt attempt;
  NodeId node;
  Duration grace{};
  std::string reason;
  bool operator==(const StopGroup&) const = default;
};
struct Pause {
  Attempt attempt;
  NodeId node;
  PauseStep step = PauseStep::Pause;
  std::uint64_t report_seq = 0;
  std::string reason;
  bool at_checkpoint = false;  // pause only where a rank hands over a checkpoint
  bool operator==(const Pause&) const = default;
};
struct OrderCheckpoint {
  Attempt attempt;
  NodeId node;
  CheckpointOrder order;
  bool operator==(const OrderCheckpoint&) const = default;
};
struct CheckpointAnswered {  // to CheckpointAsked
  std::string id;
  std::uint64_t number = 0;  // of the committed checkpoint
  std::string error = {};    // why there is none; empty: there is one
  bool operator==(const CheckpointAnswered&) const = default;
};
struct Release {
  Attempt attempt;
  NodeId node;
  bool keep_workers = false;  // those that stay wait for another run
  bool operator==(const Release&) const = default;
};
struct SendCollective {
  Attempt attempt;
  NodeId node;
  std::uint64_t sequence = 0;
  SharedValue<std::vector<std::string>> parts;
  std::string error;
  bool operator==(const SendCollective&) const = default;
};
struct TellCheckpoint {
  Attempt attempt;
  NodeId node;
  std::uint64_t checkpoint_seq = 0;
  std::string path, error;
  bool operator==(const TellCheckpoint&) const = default;
};
struct Commit {
  Attempt attempt;
  std::uint64_t checkpoint_seq = 0;
  std::uint64_t number = 0;
  std::vector<StagedShard> shards;
  bool operator==(const Commit&) const = default;
};
struct GiveUpCommit {  // answered by CommitFinished at once, whatever the storage does
  Attempt attempt;
  std::uint64_t checkpoint_seq = 0;
  std::string reason;
  bool operator==(const GiveUpCommit&) const = default;
};
struct Validate {  // in a separate process, beside any workers that are there
  Attempt attempt;
  NodeId node;
  CheckpointInfo checkpoint;
  bool operator==(const Validate&) const = default;
};
struct CollectStacks {  // answered by StacksCollected
  Attempt attempt;
  std::vector<NodeId> nodes;  // where workers of the attempt may be
  std::vector<Rank> ranks;    // empty: all
  std::string why;
  bool operator==(const CollectStacks&) const = default;
};
/// Ranks hang: this is found out once for each of them, until they move again. A Note tells the
/// user, or the end of the group does.
struct HangFound {
  Attempt attempt;
  Rank rank;  // the first of them
  std::string node;
  std::string text;  // one line, which names all of them
  bool operator==(const HangFound&) const = default;
};
enum class NoteLevel { Info, Warning, Error };
struct Note {
  NoteLevel level = NoteLevel::Info;
  std::string text;
  bool operator==(const Note&) const = default;
};
struct StragglerChanged {  // for the journal and the screen: ranks are slow, or no longer
  Attempt attempt;
  bool slow = true;
  std::vector<Rank> ranks;  // of one node
  std::string node;
  Phase phase = Phase::Step;
  double behind = 0;  // the median, as a share of the median's own time
  Duration lasted{};  // so far
  double odds = 1;    // that this is chance
  std::string text;   // one line
  bool operator==(const StragglerChanged&) const = default;
};
/// Whether a node may be used, and if not, why. Of several reasons, the first of these counts.
enum class NodeState { Stuck, Drained, Lost, Quarantined, Up };
struct NodeStateChanged {  // for the journal
  std::string node;
  NodeState state{};
  std::string reason;  // "" if it may be used
  bool operator==(const NodeStateChanged&) const = default;
};
struct StateChanged {  // for the journal, the screen and status
  RunState from{}, to{};
  RunTrigger trigger{};
  Attempt attempt;
  std::string reason;
  /// The spec's stop condition that was met, so that the run ends well. Empty: none.
  std::string stop_condition;
  Duration wait{};                    // to Scheduling: before the next attempt
  std::optional<StopKind> stop = {};  // to Stopped: who asked
  bool operator==(const StateChanged&) const = default;
};
struct AttemptBegun {  // for the journal, before any worker of it exists
  Attempt attempt;
  Placement placement;
  std::vector<std::string> node_names;  // by node rank
  std::optional<CheckpointInfo> restore;
  int restart_count = 0;
  std::vector<std::string> roles = {};  // their names; none: the job has only one
  bool operator==(const AttemptBegun&) const = default;
};
struct AttemptEnded {  // for cause.json and the summary
  Attempt attempt;
  std::string cause;  // one line; of a worker that died, only what its end does not tell
  bool failed = false;
  bool resized = false;                     // it ended so that a group of another size could begin
  std::optional<FailureKind> failure = {};  // set if it failed, or was preempted
  std::optional<NodeId> node = {};          // where it failed
  /// Of a worker that died in a group that had reported.
  std::optional<FailureLocation> location = {};
  std::optional<Rank> root_rank;
  std::optional<WorkerEnd> root_end;
  std::string root_node;
  std::optional<Error> start_error;  // the root rank never ran
  int collateral = 0;                // deaths that followed from it
  TimeAccounts time = {};            // of all its workers, from grant to release
  std::vector<NodeId> stuck = {};    // where a worker cannot be killed
  bool marks = true;                 // of a hang: the SDK marks the loop of the root rank
  /// Whether a rank hung that a learned limit had accused; none: it accused nobody for long enough.
  std::optional<bool> learned_limits_right = {};
  bool operator==(const AttemptEnded&) const = default;
};
struct RunEnded {
  RunState outcome{};
  std::string reason;
  std::optional<StopKind> stop;
  bool workers_stay = false;  // the processes of the newest attempt's workers wait for another run
  bool operator==(const RunEnded&) const = default;
};

struct KeepIngest {  // keep an ingest worker running in this place
  Attempt attempt;
  NodeId node;
  std::string dataset;
  std::int32_t slot = 0;
  bool for_others = false;  // there are ranks on other nodes
  bool operator==(const KeepIngest&) const = default;
};
struct EndIngest {  // keep none there any more
  Attempt attempt;
  NodeId node;
  std::string dataset;
  std::int32_t slot = 0;
  bool operator==(const EndIngest&) const = default;
};
struct SendRoster {
  Attempt attempt;
  NodeId node;
  SharedValue<IngestRoster> roster;  // as the node's ranks see it
  bool operator==(const SendRoster&) const = default;
};
struct IngestChanged {  // for the journal, status and the summary
  Attempt attempt;
  std::string dataset;
  int wanted = 0, serving = 0;
  std::uint32_t deaths = 0;  // in this attempt
  bool operator==(const IngestChanged&) const = default;
};

using RunAction =
    std::variant<Prepare, KeepRoom, Start, StandBy, StopGroup, Pause, OrderCheckpoint,
                 CheckpointAnswered, Release, SendCollective, TellCheckpoint, Commit, GiveUpCommit,
                 Validate, CollectStacks, HangFound, Note, StragglerChanged, NodeStateChanged,
                 KeepIngest, EndIngest, SendRoster, IngestChanged, StateChanged, AttemptBegun,
                 AttemptEnded, RunEnded>;

/// An attempt that began under an earlier launcher and has no known end.
struct LivingAttempt {
  Attempt id;
  Generation generation;  // of the launcher that began it
  Placement placement;
  std::vector<std::string> node_names;  // by node rank
  std::optional<CheckpointInfo> restored;
  int restart_count = 0;
  bool pausing = false;                       // its ranks had been asked to pause
  bool ending = false;                        // its workers were being stopped, or had ended
  std::optional<std::string> stop_condition;  // the one that had been met
  std::uint64_t resolved_seq = 0;  // of its newest committed checkpoint, at `resolved_path`
  std::string resolved_path;
  Duration age{};                       // since it began, by the wall clock
  std::optional<NotedTime> noted = {};  // what its launcher wrote down of its time
};

}  // namespace train
