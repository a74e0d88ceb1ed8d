// A frame may come from a node that runs anybody's code: a rank that no attempt can have leads
// nowhere.
#include "launcher/cluster/links/controller_frames.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/wire/daemon_messages.h"

namespace train {
namespace {

constexpr NodeId kNode{0};
constexpr Attempt kAttempt{0};
constexpr int kRanks = 4;
constexpr std::int32_t kWrongRanks[] = {-1,
                                        -3,
                                        -1000000,
                                        kRanks,
                                        2000000000,
                                        std::numeric_limits<std::int32_t>::min(),
                                        std::numeric_limits<std::int32_t>::max()};

TEST(ControllerFrames, ARankThatNoAttemptCanHaveIsDropped) {
  for (const std::int32_t rank : kWrongRanks) {
    WorkerResult result;
    result.rank = rank;
    EXPECT_FALSE(decode_of_rank<WorkerResult>(encode(result, kAttempt), kRanks)) << rank;
    WorkerExited exited;
    exited.rank = rank;
    EXPECT_FALSE(to_event(kNode, encode(exited, kAttempt), kRanks)) << rank;
    ReportBatch batch;
    batch.rank = rank;
    batch.count = 1;
    EXPECT_FALSE(to_event(kNode, encode(batch, kAttempt), kRanks)) << rank;
    WorkersStarted started;
    started.workers = {{0, 1}, {rank, 2}};
    EXPECT_FALSE(to_event(kNode, encode(started, kAttempt), kRanks)) << rank;
    AttemptSnapshot snapshot;
    snapshot.phase = "running";
    snapshot.alive = {{rank, 1, true, 0}};
    EXPECT_FALSE(to_event(kNode, encode(snapshot, kAttempt), kRanks)) << rank;
  }
}

TEST(ControllerFrames, ARankOfTheRunIsTaken) {
  WorkerResult result;
  result.rank = kRanks - 1;
  EXPECT_EQ(decode_of_rank<WorkerResult>(encode(result, kAttempt), kRanks)->rank, kRanks - 1);
  WorkersStarted started;
  started.workers = {{0, 1}, {kRanks - 1, 2}};
  EXPECT_TRUE(to_event(kNode, encode(started, kAttempt), kRanks));
}

/// What the controller is told of a message of attempt 5 on node 3.
template <class Event, class Message>
Event event_of(const Message& message) {
  const auto event = to_event(NodeId{3}, encode(message, Attempt{5}), kRanks);
  if (!event || !std::holds_alternative<Event>(*event)) {
    ADD_FAILURE() << "another event, or none";
    return {};
  }
  const Event& found = std::get<Event>(*event);
  if constexpr (requires { found.attempt; }) {
    EXPECT_EQ(found.attempt, Attempt{5});
  }
  if constexpr (requires { found.node; }) {
    EXPECT_EQ(found.node, NodeId{3});
  }
  return found;
}

TEST(ControllerFrames, OfReportsTheLastOneCounts) {
  const auto event =
      event_of<RankReported>(ReportBatch{.rank = 2, .first_ordinal = 7, .count = 3, .data = ""});
  EXPECT_EQ(event.rank, Rank{2});
  EXPECT_EQ(event.ordinal, 9u);
}

TEST(ControllerFrames, AGroupThatIsPreparedAndStarted) {
  EXPECT_EQ(event_of<AttemptPrepared>(Prepared{.node_rank = 0, .master_port = 4711}).master_port,
            4711u);
  const auto started =
      event_of<AttemptStarted>(WorkersStarted{.workers = {{0, 100}, {1, 101}}, .stood_by = 1});
  EXPECT_EQ(started.pids,
            (std::vector<std::pair<Rank, std::int64_t>>{{Rank{0}, 100}, {Rank{1}, 101}}));
  EXPECT_EQ(started.stood_by, 1);
  EXPECT_EQ(event_of<RankJoined>(WorkerJoined{.rank = 2, .build = ""}).rank, Rank{2});
}

TEST(ControllerFrames, AStartThatWasRefusedHasItsReason) {
  const auto refused = event_of<StartRefused>(
      StartFailed{.rank = 2, .code = "not_found", .message = "no such file", .hint = "make it"});
  EXPECT_EQ(refused.rank, Rank{2});
  EXPECT_EQ(refused.error.code, Errc::NotFound);
  EXPECT_EQ(refused.error.message, "no such file");
  EXPECT_EQ(refused.error.hint, "make it");
}

TEST(ControllerFrames, AnEndIsToldAsTheSupervisorSawIt) {
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
                .last_ordinal = 77,
                .memory = {1, 2, "claim"},
                .pids_limit_hit = 3};

  const auto event = event_of<RankExited>(exited);

  EXPECT_EQ(event.rank, Rank{2});
  EXPECT_EQ(event.end, exited.end);
  exited.end.error.reset();
  EXPECT_EQ(event_of<RankExited>(exited).end.error, std::nullopt);
}

TEST(ControllerFrames, WhoLivesIsToldByWhoIsAttached) {
  AttemptSnapshot snapshot;
  snapshot.alive = {{1, 100, true, 7}, {2, 101, false, 0}};
  snapshot.settled_checkpoint = 4;
  const std::vector<std::pair<std::string, bool>> phases{
      {"spawned", false}, {"prepared", false}, {"running", true}, {"gone", true}};
  for (const auto& [phase, has_workers] : phases) {
    snapshot.phase = phase;
    EXPECT_EQ(event_of<SupervisorAttached>(snapshot).has_workers, has_workers) << phase;
  }
  const auto attached = event_of<SupervisorAttached>(snapshot);
  EXPECT_EQ(attached.settled_checkpoint, 4u);
  ASSERT_EQ(attached.ranks.size(), 2u);
  EXPECT_EQ(attached.ranks[0].rank, Rank{1});
  EXPECT_TRUE(attached.ranks[0].joined);
  EXPECT_EQ(attached.ranks[0].reported, 7u);
  EXPECT_FALSE(attached.ranks[1].joined);
}

TEST(ControllerFrames, WhatEndsOnANode) {
  (void)event_of<NodeGroupGone>(GroupGone{});
  const auto lost = event_of<SupervisorLost>(AttemptLost{.reason = "killed", .standby = true});
  EXPECT_EQ(lost.reason, "killed");
  EXPECT_TRUE(lost.standby);
  const auto drain = event_of<NodeDrain>(NodeDraining{.grace_ms = 1500, .reason = "upgrade"});
  EXPECT_EQ(drain.grace, milliseconds(1500));
  EXPECT_EQ(drain.reason, "upgrade");
}

TEST(ControllerFrames, APauseAndAPart) {
  const auto paused = event_of<RankPaused>(
      WorkerPaused{.rank = 2, .ordinal = 5, .checkpoint_index = 3, .arrived = true});
  EXPECT_EQ(paused.rank, Rank{2});
  EXPECT_EQ(paused.ordinal, 5u);
  EXPECT_EQ(paused.checkpoint_index, 3u);
  EXPECT_TRUE(paused.arrived);

  ShardWritten written;
  written.rank = Rank{2};
  written.index = 3;
  written.report_ordinal = 9;
  written.dir = ".rank-0002";
  written.files = {{"state", 5, {6, 7}}};
  written.metadata_json = "{}";
  written.error = "the disk is full";
  written.no_space = true;
  EXPECT_EQ(event_of<ShardStaged>(written).part, StagedShard(written));
}

TEST(ControllerFrames, CollectiveCallsAndTheirAnswers) {
  const auto joined = event_of<CollectiveJoined>(
      CollectiveJoin{.rank = 2, .sequence = 4, .name = "sum", .data = "x"});
  EXPECT_EQ(joined.rank, Rank{2});
  EXPECT_EQ(joined.sequence, 4u);
  EXPECT_EQ(joined.name, "sum");
  EXPECT_EQ(joined.data, "x");
  const auto settled =
      event_of<CollectiveSettled>(CollectiveAnswered{.sequence = 4, .parts = {"y"}, .error = "no"});
  EXPECT_EQ(settled.sequence, 4u);
  EXPECT_EQ(settled.parts, std::vector<std::string>{"y"});
  EXPECT_EQ(settled.error, "no");
}

TEST(ControllerFrames, WhatIsNotTheControllersIsNoEvent) {
  EXPECT_FALSE(to_event(kNode, encode(OutputChunk{}, kAttempt), kRanks));
}

TEST(ControllerFrames, WhatTheControllerAsksForReachesTheAttempt) {
  const auto stop = to_frame(
      StopGroup{.attempt = Attempt{5}, .node = kNode, .grace = seconds(3), .reason = "Ctrl-C"});
  EXPECT_EQ(stop.attempt, Attempt{5});
  EXPECT_EQ(decode<StopWorkers>(stop)->grace_ms, 3000);
  EXPECT_EQ(decode<StopWorkers>(stop)->reason, "Ctrl-C");

  const std::vector<std::pair<Pause::Step, std::string>> steps{{Pause::Step::Pause, "pause"},
                                                               {Pause::Step::Advance, "advance"},
                                                               {Pause::Step::Finish, "finish"}};
  for (const auto& [step, name] : steps) {
    const Frame frame = to_frame(Pause{.attempt = Attempt{5},
                                       .node = kNode,
                                       .step = step,
                                       .ordinal = 7,
                                       .reason = "drain",
                                       .at_checkpoint = true});
    EXPECT_EQ(frame.attempt, Attempt{5});
    const auto pause = decode<PauseWorkers>(frame);
    ASSERT_TRUE(pause);
    EXPECT_EQ(pause->step, name);
    EXPECT_EQ(pause->ordinal, 7u);
    EXPECT_EQ(pause->reason, "drain");
    EXPECT_TRUE(pause->at_checkpoint);
  }

  const Frame told = to_frame(
      TellCheckpoint{.attempt = Attempt{5}, .node = kNode, .index = 2, .path = "p", .error = "e"},
      {"data-1-5.2"});
  EXPECT_EQ(told.attempt, Attempt{5});
  const auto outcome = decode<CheckpointOutcome>(told);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->index, 2u);
  EXPECT_EQ(outcome->path, "p");
  EXPECT_EQ(outcome->error, "e");
  EXPECT_EQ(outcome->keep, std::vector<std::string>{"data-1-5.2"});

  SendCollective send{.attempt = Attempt{5}, .node = kNode, .sequence = 4};
  send.parts = SharedValue(std::vector<std::string>{"a", "b"});
  const Frame result = to_frame(send);
  EXPECT_EQ(result.attempt, Attempt{5});
  EXPECT_EQ(decode<CollectiveResult>(result)->sequence, 4u);
  EXPECT_EQ(decode<CollectiveResult>(result)->parts, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace train
