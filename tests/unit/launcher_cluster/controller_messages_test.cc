// A frame may come from a node that runs anybody's code. A rank that no attempt can have must do no
// harm.
#include "launcher/cluster/links/controller_messages.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/wire/daemon_messages.h"

namespace train {
namespace {

constexpr NodeId kNode{0};
constexpr int kRanks = 4;
constexpr std::int32_t kWrongRanks[] = {-1,
                                        -3,
                                        -1000000,
                                        kRanks,
                                        2000000000,
                                        std::numeric_limits<std::int32_t>::min(),
                                        std::numeric_limits<std::int32_t>::max()};

template <class Message>
bool is_taken(const Message& message) {
  const auto found = decode_node_message(encode(message, Attempt{0}), kRanks);
  if (!found) EXPECT_EQ(found.error().code, Errc::Protocol);
  return found.has_value() && std::holds_alternative<Message>(*found);
}

TEST(ControllerMessages, ARankThatNoAttemptCanHaveIsRefused) {
  for (const std::int32_t rank : kWrongRanks) {
    EXPECT_FALSE(is_taken(WorkerResult{.rank = rank, .json = ""})) << rank;
    EXPECT_FALSE(is_taken(WorkerExited{.rank = rank, .pid = 1, .end = {}})) << rank;
    EXPECT_FALSE(is_taken(ReportBatch{.rank = rank, .count = 1, .data = ""})) << rank;
    EXPECT_FALSE(is_taken(WorkersStarted{.workers = {{0, 1}, {rank, 2}}})) << rank;
    EXPECT_FALSE(is_taken(AttemptSnapshot{.phase = "running", .alive = {{rank, 1, true, 0}}}))
        << rank;
    ShardWritten shard;
    shard.rank = Rank{rank};
    EXPECT_FALSE(is_taken(shard)) << rank;
  }
  const auto refused = decode_node_message(encode(WorkerResult{.rank = 9, .json = ""}), kRanks);
  EXPECT_EQ(refused.error().message, "WorkerResult names rank 9, but the number of ranks is 4");
}

TEST(ControllerMessages, ARankOfTheRunIsTaken) {
  EXPECT_TRUE(is_taken(WorkerResult{.rank = kRanks - 1, .json = ""}));
  EXPECT_TRUE(is_taken(WorkersStarted{.workers = {{0, 1}, {kRanks - 1, 2}}}));
  EXPECT_TRUE(is_taken(GroupGone{}));
  EXPECT_TRUE(is_taken(WorkersStarted{}));
}

TEST(ControllerMessages, OneOfANewerProtocolIsNoError) {
  const auto found = decode_node_message({.type = static_cast<MessageType>(0x1ff)}, kRanks);

  ASSERT_TRUE(found);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*found));
}

TEST(ControllerMessages, BytesThatAreNoMessageAreAnErrorThatNamesIt) {
  const auto found =
      decode_node_message({.type = MessageType::WorkerExited, .payload = "\xc1"}, kRanks);

  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("WorkerExited"), std::string::npos) << found.error().message;
}

/// A malformed digest is an error, not a digest of zeros.
TEST(ControllerMessages, AShardWithAMalformedDigestIsRefused) {
  ShardWritten shard;
  shard.files = {{"state", 5, {6, 7}}};
  Frame frame = encode(shard, Attempt{0});
  const std::size_t at = frame.payload.find(to_hex({6, 7}));
  ASSERT_NE(at, std::string::npos);
  frame.payload[at] = 'g';

  const auto found = decode_node_message(frame, kRanks);

  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::Protocol);
}

/// Return the controller's event for a message of attempt 5 on node 3.
template <class Event, class Message>
Event event_of(const Message& message) {
  Event found = to_event(Sender{Attempt{5}, NodeId{3}}, message);
  if constexpr (requires { found.attempt; }) {
    EXPECT_EQ(found.attempt, Attempt{5});
  }
  if constexpr (requires { found.node; }) {
    EXPECT_EQ(found.node, NodeId{3});
  }
  return found;
}

TEST(ControllerMessages, OfReportsTheLastOneCounts) {
  const auto event =
      event_of<RankReported>(ReportBatch{.rank = 2, .first_report_seq = 7, .count = 3, .data = ""});
  EXPECT_EQ(event.rank, Rank{2});
  EXPECT_EQ(event.report_seq, 9u);
}

// A node may send anything: what is computed with the numbers must not overflow.
TEST(ControllerMessages, SamplesAreBroughtIntoARangeThatCanBeComputedWith) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  WorkerSamples message{.ranks = {RankSample{.rank = Rank{2}}}};
  message.ranks[0].progress.quiet_us = kMost;
  message.ranks[0].progress.limit_us = kLeast;
  message.ranks[0].progress.intervals = {{~std::uint64_t{0}, kMost, kMost}};
  message.ranks[0].process.cpu_us = kMost;
  message.ranks[0].process.read_bytes = kLeast;

  const RankSample found = event_of<RanksSampled>(message).ranks.at(0);

  constexpr std::int64_t kMax = std::int64_t{1} << 50;
  EXPECT_EQ(found.rank, Rank{2});
  EXPECT_EQ(found.progress.quiet_us, kMax);
  EXPECT_EQ(found.progress.limit_us, 0);
  ASSERT_EQ(found.progress.intervals.size(), kPhases.size());
  EXPECT_EQ(found.progress.intervals[0], (PhaseIntervals{kMax, kMax, kMax}));
  EXPECT_EQ(found.process.cpu_us, kMax);
  EXPECT_EQ(found.process.read_bytes, 0);
}

TEST(ControllerMessages, AGroupThatIsPreparedAndStarted) {
  EXPECT_EQ(event_of<AttemptPrepared>(Prepared{.node_rank = 0, .master_port = 4711}).master_port,
            4711u);
  const auto started =
      event_of<AttemptStarted>(WorkersStarted{.workers = {{0, 100}, {1, 101}}, .from_standby = 1});
  EXPECT_EQ(started.pids,
            (std::vector<std::pair<Rank, std::int64_t>>{{Rank{0}, 100}, {Rank{1}, 101}}));
  EXPECT_EQ(started.from_standby, 1);
  EXPECT_EQ(event_of<RankJoined>(WorkerJoined{.rank = 2, .build = ""}).rank, Rank{2});
}

TEST(ControllerMessages, AStartThatWasRefusedHasItsReason) {
  const auto refused = event_of<StartRefused>(
      StartFailed{.rank = 2, .code = "not_found", .message = "no such file", .hint = "make it"});
  EXPECT_EQ(refused.rank, Rank{2});
  EXPECT_EQ(refused.error.code, Errc::NotFound);
  EXPECT_EQ(refused.error.message, "no such file");
  EXPECT_EQ(refused.error.hint, "make it");
  EXPECT_FALSE(refused.busy);
  EXPECT_TRUE(event_of<StartRefused>(StartFailed{.code = "unavailable", .busy = true}).busy);
}

TEST(ControllerMessages, AnEndIsToldAsTheSupervisorSawIt) {
  WorkerExited exited;
  exited.rank = 2;
  exited.end = {.signaled = true,
                .status = 9,
                .core_dumped = true,
                .oom_killed = true,
                .stop_requested = true,
                .wall_us = 123,
                .last_lines = {"first", "last"},
                .error = UserError{"boom", "std::runtime_error", "at x"},
                .last_report_seq = 77,
                .memory = {1, 2, "claim"},
                .pids_limit_hit = 3};
  exited.progress = {.phase = Phase::Own, .name = "secret", .quiet_us = 5};
  exited.progress.handed_over.resize(100, {1, -1});
  exited.ended_us = -4;

  const auto event = event_of<RankExited>(exited);

  EXPECT_EQ(event.rank, Rank{2});
  EXPECT_EQ(event.end, exited.end);
  EXPECT_EQ(event.ago, Duration{});
  EXPECT_EQ(event.progress.phase, Phase::Own);
  EXPECT_EQ(event.progress.name, "");
  EXPECT_EQ(event.progress.intervals.size(), kPhases.size());
  EXPECT_EQ(event.progress.handed_over,
            (std::vector<HandedOverCheckpoint>(kHandedOverMax, {1, 0})));
  exited.ended_us = 7;
  EXPECT_EQ(event_of<RankExited>(exited).ago, std::chrono::microseconds(7));
  exited.end.error.reset();
  EXPECT_EQ(event_of<RankExited>(exited).end.error, std::nullopt);
}

TEST(ControllerMessages, WhoLivesIsToldByWhoIsAttached) {
  AttemptSnapshot snapshot;
  snapshot.alive = {{1, 100, true, 7}, {2, 101, false, 0}};
  snapshot.resolved_checkpoint = 4;
  const std::vector<std::pair<std::string, bool>> phases{
      {"spawned", false}, {"prepared", false}, {"running", true}, {"gone", true}};
  for (const auto& [phase, has_workers] : phases) {
    snapshot.phase = phase;
    EXPECT_EQ(event_of<SupervisorAttached>(snapshot).has_workers, has_workers) << phase;
  }
  const auto attached = event_of<SupervisorAttached>(snapshot);
  EXPECT_EQ(attached.resolved_checkpoint, 4u);
  ASSERT_EQ(attached.ranks.size(), 2u);
  EXPECT_EQ(attached.ranks[0].rank, Rank{1});
  EXPECT_TRUE(attached.ranks[0].joined);
  EXPECT_EQ(attached.ranks[0].reported, 7u);
  EXPECT_FALSE(attached.ranks[1].joined);
}

TEST(ControllerMessages, WhatEndsOnANode) {
  (void)event_of<NodeGroupGone>(GroupGone{});
  const auto lost = event_of<SupervisorLost>(AttemptLost{.reason = "killed", .standby = true});
  EXPECT_EQ(lost.reason, "killed");
  EXPECT_TRUE(lost.standby);
  const auto drain = event_of<NodeDrain>(NodeDraining{.grace_ms = 1500, .reason = "upgrade"});
  EXPECT_EQ(drain.grace, milliseconds(1500));
  EXPECT_EQ(drain.reason, "upgrade");
}

TEST(ControllerMessages, APauseAndAShard) {
  const auto paused = event_of<RankPaused>(
      WorkerPaused{.rank = 2, .report_seq = 5, .checkpoint_seq = 3, .arrived = true});
  EXPECT_TRUE(
      event_of<RankPaused>(WorkerPaused{.rank = 2, .checkpoint_pending = true}).checkpoint_pending);
  EXPECT_FALSE(paused.checkpoint_pending);
  EXPECT_EQ(paused.rank, Rank{2});
  EXPECT_EQ(paused.report_seq, 5u);
  EXPECT_EQ(paused.checkpoint_seq, 3u);
  EXPECT_TRUE(paused.arrived);

  ShardWritten written;
  written.rank = Rank{2};
  written.checkpoint_seq = 3;
  written.report_seq = 9;
  written.dir = ".rank-0002";
  written.files = {{"state", 5, {6, 7}}};
  written.metadata_json = "{}";
  written.error = "the disk is full";
  written.no_space = true;
  EXPECT_EQ(event_of<ShardStaged>(written).shard, StagedShard(written));
}

TEST(ControllerMessages, CollectiveCallsAndTheirAnswers) {
  const auto joined = event_of<CollectiveJoined>(
      CollectiveJoin{.rank = 2, .sequence = 4, .name = "sum", .data = "x"});
  EXPECT_EQ(joined.rank, Rank{2});
  EXPECT_EQ(joined.sequence, 4u);
  EXPECT_EQ(joined.name, "sum");
  EXPECT_EQ(joined.data, "x");
  const auto resolved = event_of<CollectiveResolved>(
      CollectiveAnswered{{.sequence = 4, .parts = {"y"}, .error = "no"}});
  EXPECT_EQ(resolved.sequence, 4u);
  EXPECT_EQ(resolved.parts, std::vector<std::string>{"y"});
  EXPECT_EQ(resolved.error, "no");
}

TEST(ControllerMessages, WhatTheControllerAsksFor) {
  const StopWorkers stop = message_of(StopGroup{.grace = seconds(3), .reason = "Ctrl-C"});
  EXPECT_EQ(stop.grace_ms, 3000);
  EXPECT_EQ(stop.reason, "Ctrl-C");

  const std::vector<std::pair<PauseStep, std::string>> steps{{PauseStep::Pause, "pause"},
                                                             {PauseStep::Advance, "advance"},
                                                             {PauseStep::Checkpoint, "checkpoint"},
                                                             {PauseStep::Finish, "finish"}};
  for (const auto& [step, name] : steps) {
    const PauseWorkers pause =
        message_of(Pause{.step = step, .report_seq = 7, .reason = "drain", .at_checkpoint = true});
    EXPECT_EQ(pause.step, name);
    EXPECT_EQ(pause.report_seq, 7u);
    EXPECT_EQ(pause.reason, "drain");
    EXPECT_TRUE(pause.at_checkpoint);
  }

  const CheckpointOutcome outcome =
      message_of(TellCheckpoint{.checkpoint_seq = 2, .path = "p", .error = "e"}, {"data-1-5.2"});
  EXPECT_EQ(outcome.checkpoint_seq, 2u);
  EXPECT_EQ(outcome.path, "p");
  EXPECT_EQ(outcome.error, "e");
  EXPECT_EQ(outcome.keep, std::vector<std::string>{"data-1-5.2"});

  SendCollective send{.sequence = 4};
  send.parts = SharedValue(std::vector<std::string>{"a", "b"});
  CollectiveFrames frames;
  const auto result = [&] { return *decode<CollectiveResult>(frames.of(send)); };
  EXPECT_EQ(result().sequence, 4u);
  EXPECT_EQ(result().parts, (std::vector<std::string>{"a", "b"}));
  send.node = NodeId{1};
  EXPECT_EQ(result().parts, (std::vector<std::string>{"a", "b"}));
  send.parts = SharedValue(std::vector<std::string>{"c"});
  EXPECT_EQ(result().parts, std::vector<std::string>{"c"});
  send.error = "late";
  EXPECT_EQ(result().error, "late");
  send.sequence = 5;
  EXPECT_EQ(result().sequence, 5u);
  send.attempt = Attempt{3};
  EXPECT_EQ(frames.of(send).attempt, Attempt{3});
}

// ---- ingest workers, whose programs are the user's

TEST(ControllerMessages, AnIngestWorkerServesAndEnds) {
  const auto serves = event_of<IngestServes>(IngestUp{"n", "train", 2, "/s", "h:1"});
  EXPECT_EQ(
      serves.place,
      (IngestPlace{.dataset = "train", .slot = 2, .name = "n", .socket = "/s", .flight = "h:1"}));
  const auto sampled =
      event_of<IngestSampled>(IngestLoad{.name = "n", .dataset = "train", .slot = 2, .cpu_us = 3});
  EXPECT_EQ(sampled.cpu, std::chrono::microseconds(3));
  IngestEnded ended{.name = "n", .dataset = "train", .slot = 2, .why = "it exited with 3"};
  ended.deaths = 4;
  ended.again_ms = 5;
  ended.often = true;
  ended.last_lines = {"oh"};
  const auto gone = event_of<IngestGone>(ended);
  EXPECT_EQ(gone.why, "it exited with 3");
  EXPECT_EQ(gone.deaths, 4u);
  EXPECT_EQ(gone.again, milliseconds(5));
  EXPECT_TRUE(gone.often);
  EXPECT_EQ(gone.last_lines, (std::vector<std::string>{"oh"}));
}

TEST(ControllerMessages, AnIngestWorkersAddressesMayBeAsLongAsTheirLimit) {
  const std::string longest(kIngestAddressBytesMax, 'x');
  const auto serves = event_of<IngestServes>(IngestUp{longest, "train", 2, longest, longest}).place;
  EXPECT_EQ(serves.slot, 2) << "it is taken";
  EXPECT_EQ(serves.name, longest);
}

TEST(ControllerMessages, WhatAnIngestWorkerSaysIsBounded) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(
      event_of<IngestServes>(IngestUp{"n", "train", 2, "/s", std::string(3000, 'x')}).place.slot,
      0);
  EXPECT_LT(event_of<IngestSampled>(IngestLoad{.cpu_us = kMost}).cpu,
            std::chrono::hours(24 * 20000));
  EXPECT_EQ(event_of<IngestSampled>(IngestLoad{.cpu_us = -5}).cpu, Duration{});
  IngestEnded ended{.why = std::string(1 << 20, 'w')};
  ended.again_ms = kMost;
  ended.last_lines.assign(1000, std::string(1 << 10, 'l'));
  const auto gone = event_of<IngestGone>(ended);
  EXPECT_LE(gone.why.size(), 64u << 10);
  EXPECT_EQ(gone.last_lines.size(), 20u);
  EXPECT_LE(gone.again, std::chrono::hours(1));
}

TEST(ControllerMessages, ASnapshotTellsOfIngestWorkersAndItsVersionLeavesRoom) {
  AttemptSnapshot snapshot{.phase = "running"};
  snapshot.ingest = {{.dataset = "train", .slot = 1, .name = "n"},
                     {.dataset = "train", .slot = 2, .name = std::string(400, 'x')}};
  snapshot.roster_version = std::numeric_limits<std::uint64_t>::max();

  const auto event = event_of<SupervisorAttached>(snapshot);

  ASSERT_EQ(event.ingest.size(), 1u);
  EXPECT_EQ(event.ingest[0].name, "n");
  EXPECT_LT(event.roster_version, std::uint64_t{1} << 61);
}

TEST(ControllerMessages, OfDatasetsTheWaitsOfTheLoopsCount) {
  DataSamples samples;
  samples.taken_us = 7;
  samples.ranks = {
      {.rank = Rank{2},
       .operators = {{.dataset = "train", .kind = OperatorKind::Decode, .input_us = 1},
                     {.dataset = "train", .kind = OperatorKind::Loop, .input_us = 5},
                     {.dataset = "valid", .kind = OperatorKind::Loop, .input_us = -5}}}};

  const auto event = event_of<DatasetsRead>(samples);

  EXPECT_EQ(event.taken, std::chrono::microseconds(7));
  EXPECT_EQ(event.readers,
            (std::vector<DatasetsRead::Reader>{{Rank{2}, "train", std::chrono::microseconds(5)},
                                               {Rank{2}, "valid", Duration{}}}));
}

TEST(ControllerMessages, OrdersAboutIngestWorkers) {
  EXPECT_EQ(message_of(EndIngest{Attempt{5}, kNode, "train", 2}), (StopIngest{"train", 2}));
  const IngestRoster roster{3, {{.name = "n"}}};
  const TellIngestRoster told = message_of(SendRoster{Attempt{5}, kNode, roster});
  EXPECT_EQ(static_cast<const IngestRoster&>(told), roster);
}

}  // namespace
}  // namespace train
