// A launcher hears what a worker says, and so does each later launcher as long as nobody has
// answered.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/supervisor/workers/worker_frames.h"
#include "lib/wire/reports.h"
#include "tests/unit/daemon_supervisor/worker_link.h"

namespace train {
namespace {

using Names = std::vector<std::string>;

const std::set<std::string> kOfEveryGroup{"Prepared", "WorkersStarted", "WorkerJoined",
                                          "OutputChunk"};

class WorkerMessagesTest : public WorkerLink {
 protected:
  /// Return what a launcher of this generation hears when it attaches, between the snapshot and the
  /// next one.
  std::vector<Frame> told(std::uint64_t generation) {
    supervisor_.attach(generation);
    supervisor_.attach(generation);
    snapshot_ = supervisor_.wait_for<AttemptSnapshot>();
    std::vector<Frame> frames = supervisor_.until(MessageType::AttemptSnapshot);
    frames.pop_back();
    return frames;
  }
  /// Return their names, without those that every launcher of this group hears.
  static Names names(const std::vector<Frame>& frames) {
    Names all;
    for (const Frame& frame : frames) {
      const std::string name(to_string(frame.type));
      if (!kOfEveryGroup.contains(name)) all.push_back(name);
    }
    return all;
  }
  /// Wait until the supervisor has handled all previous messages.
  void wait_until_handled() {
    say(WorkerGoodbye{});
    EXPECT_TRUE(hear<GoodbyeAck>());
  }
  pid_t pid() {
    (void)told(1);
    EXPECT_EQ(snapshot_.alive.size(), 1u);
    return static_cast<pid_t>(snapshot_.alive.at(0).pid);
  }
  CheckpointStaged staged(std::uint64_t index, const std::string& text) {
    CheckpointStaged message;
    message.checkpoint_seq = index;
    message.report_seq = 9;
    message.dir = staging_ + "/ckpt-" + std::to_string(index);
    message.metadata_json = R"({"a":1})";
    std::filesystem::create_directories(message.dir);
    std::ofstream(message.dir + "/state") << text;
    return message;
  }

  AttemptSnapshot snapshot_;
};

TEST_F(WorkerMessagesTest, TheLauncherHearsThatItHasJoined) {
  const auto frames = told(2);

  ASSERT_EQ(frames.back().type, MessageType::WorkerJoined);
  EXPECT_EQ(decode<WorkerJoined>(frames.back())->rank, 0);
  ASSERT_EQ(snapshot_.alive.size(), 1u);
  EXPECT_TRUE(snapshot_.alive[0].joined);
}

TEST_F(WorkerMessagesTest, ACollectiveCallIsSaidAgainUntilItIsAnswered) {
  say(CollectiveJoin{.rank = 7, .sequence = 4, .name = "sum", .data = "x"});
  const auto join = supervisor_.wait_for<CollectiveJoin>();
  EXPECT_EQ(join.rank, 0);
  EXPECT_EQ(join.sequence, 4u);
  EXPECT_EQ(join.data, "x");

  const auto frames = told(2);
  EXPECT_EQ(names(frames), Names{"CollectiveJoin"});
  EXPECT_EQ(decode<CollectiveJoin>(frames.front())->rank, 0);
  supervisor_.send(CollectiveResult{.sequence = 4, .parts = {"y"}, .error = ""});

  const auto result = hear<CollectiveResult>();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->parts, std::vector<std::string>{"y"});
  EXPECT_EQ(names(told(2)), Names{});
}

TEST_F(WorkerMessagesTest, AQuestionForCheckpointsIsSaidAgainUntilItIsAnswered) {
  say(AskCheckpoints{.rank = 7, .request = 3});
  EXPECT_EQ(supervisor_.wait_for<AskCheckpoints>().rank, 0);

  EXPECT_EQ(names(told(2)), Names{"AskCheckpoints"});
  supervisor_.send(ReportedCheckpoints{.rank = 5, .request = 3, .checkpoints = {}});  // nobody here
  supervisor_.send(ReportedCheckpoints{.rank = 0, .request = 3, .checkpoints = {}});

  const auto answer = hear<ReportedCheckpoints>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->rank, 0);
  EXPECT_EQ(answer->request, 3u);
  EXPECT_EQ(names(told(2)), Names{});
}

TEST_F(WorkerMessagesTest, AWorkerThatIsToldToLeaveHasNotComeToItsOwnEnd) {
  supervisor_.send(PauseWorkers{.step = "advance", .report_seq = 3, .reason = ""});
  supervisor_.send(PauseWorkers{.step = "finish", .report_seq = 3, .reason = "asked"});
  ASSERT_TRUE(hear<PauseWorkers>());
  ASSERT_TRUE(hear<PauseWorkers>());
  ::kill(pid(), SIGKILL);

  EXPECT_TRUE(supervisor_.wait_for<WorkerExited>().end.told_to_stop);
}

TEST_F(WorkerMessagesTest, AWorkerThatLeavesBecauseItMayHasNotComeToItsOwnEnd) {
  say(WorkerGoodbye{.told_to_stop = true});
  EXPECT_TRUE(hear<GoodbyeAck>());
  ::kill(pid(), SIGKILL);

  EXPECT_TRUE(supervisor_.wait_for<WorkerExited>().end.told_to_stop);
}

TEST_F(WorkerMessagesTest, AWorkerThatHadLeftBeforeItWasToldHasComeToItsOwnEnd) {
  wait_until_handled();
  supervisor_.send(PauseWorkers{.step = "finish", .report_seq = 3, .reason = "asked"});
  ASSERT_TRUE(hear<PauseWorkers>());
  ::kill(pid(), SIGKILL);

  EXPECT_FALSE(supervisor_.wait_for<WorkerExited>().end.told_to_stop);
}

TEST_F(WorkerMessagesTest, ReportsAreSaidAgainUntilTheyAreAcknowledged) {
  say(ReportBatch{7, 1, 2, "ab"});
  say(ReportBatch{7, 3, 1, "c"});
  EXPECT_EQ(supervisor_.wait_for<ReportBatch>().rank, 0);
  EXPECT_EQ(supervisor_.wait_for<ReportBatch>().first_report_seq, 3u);
  EXPECT_EQ(names(told(2)), (Names{"ReportBatch", "ReportBatch"}));
  EXPECT_EQ(snapshot_.alive.at(0).reported, 3u);

  supervisor_.send(AckReports{{{5, 3}, {0, 2}}});

  const auto acked = hear<AckReports>();
  ASSERT_TRUE(acked);
  ASSERT_EQ(acked->acks.size(), 1u);
  EXPECT_EQ(acked->acks[0].report_seq, 2u);
  const auto frames = told(2);
  EXPECT_EQ(names(frames), Names{"ReportBatch"});
  EXPECT_EQ(decode<ReportBatch>(frames.front())->first_report_seq, 3u);
}

TEST_F(WorkerMessagesTest, APauseAndAResultAreSaidToEveryLauncher) {
  say(WorkerPaused{.rank = 7, .report_seq = 5, .checkpoint_seq = 2, .arrived = true});
  say(WorkerResult{7, "[1]"});
  EXPECT_EQ(supervisor_.wait_for<WorkerPaused>().rank, 0);
  EXPECT_EQ(supervisor_.wait_for<WorkerResult>().json, "[1]");

  const auto frames = told(2);

  EXPECT_EQ(names(frames), (Names{"WorkerPaused", "WorkerResult"}));
  EXPECT_EQ(decode<WorkerResult>(frames.back())->rank, 0);
}

TEST_F(WorkerMessagesTest, WhatIsDoneOnceIsDoneByTheFirstWhoAsks) {
  const auto verdict = [this](const std::string& name) {
    say(OnceBegin{name});
    const auto reply = hear<OnceReply>();
    return reply ? reply->name + " " + reply->verdict + " " + reply->error : "none";
  };
  EXPECT_EQ(verdict("download"), "download run ");
  say(OnceEnd{"download", ""});
  EXPECT_EQ(verdict("download"), "download done ");
  EXPECT_EQ(verdict("unpack"), "unpack run ");
  say(OnceEnd{"unpack", "no space"});
  EXPECT_EQ(verdict("unpack"), "unpack failed no space");
}

TEST_F(WorkerMessagesTest, WhatUserCodeThrewIsToldWithItsEnd) {
  const pid_t worker = pid();
  say(ReportBatch{0, 1, 2, "ab"});
  say(WorkerError{{"boom", "std::runtime_error", "at x"}});
  wait_until_handled();

  ::kill(worker, SIGKILL);

  const auto exited = supervisor_.wait_for<WorkerExited>();
  EXPECT_EQ(exited.rank, 0);
  EXPECT_EQ(exited.pid, worker);
  EXPECT_TRUE(exited.end.signaled);
  EXPECT_EQ(exited.end.status, SIGKILL);
  EXPECT_FALSE(exited.end.stop_requested);
  EXPECT_FALSE(exited.end.oom_killed);
  EXPECT_GT(exited.end.wall_us, 0);
  EXPECT_EQ(exited.end.last_report_seq, 2u);
  EXPECT_EQ(exited.end.error, (UserError{"boom", "std::runtime_error", "at x"}));
}

TEST_F(WorkerMessagesTest, TheGroupIsNotGoneBeforeTheConnectionIsAtItsEnd) {
  ::kill(pid(), SIGKILL);
  (void)supervisor_.wait_for<WorkerExited>();

  say(WorkerResult{0, "[2]"});
  EXPECT_EQ(supervisor_.wait_for<WorkerResult>().json, "[2]") << "the group is gone before";
  link_.reset();

  (void)supervisor_.wait_for<GroupGone>();
}

TEST_F(WorkerMessagesTest, AShardIsStoredAndSaidAgainUntilItsCheckpointIsResolved) {
  say(staged(1, "hello"));

  const auto shard = supervisor_.wait_for<ShardWritten>();
  EXPECT_EQ(shard.error, "");
  EXPECT_EQ(shard.rank, Rank{0});
  EXPECT_EQ(shard.checkpoint_seq, 1u);
  EXPECT_EQ(shard.report_seq, 9u);
  EXPECT_EQ(shard.metadata_json, R"({"a":1})");
  EXPECT_FALSE(shard.on_node);
  ASSERT_EQ(shard.files.size(), 1u);
  EXPECT_EQ(shard.files[0].path, "state");
  EXPECT_EQ(shard.files[0].bytes, 5u);
  const std::string pending = supervisor_.dir() + "/run/checkpoints/.tmp-0-3.1/";
  EXPECT_TRUE(std::filesystem::exists(pending + shard.dir + "/state")) << shard.dir;
  EXPECT_FALSE(std::filesystem::exists(staging_ + "/ckpt-1"));
  EXPECT_EQ(names(told(2)), Names{"ShardWritten"});
  EXPECT_EQ(snapshot_.resolved_checkpoint, 0u);

  supervisor_.send(
      CheckpointOutcome{.checkpoint_seq = 1, .path = "checkpoint_000001", .error = ""});

  const auto outcome = hear<CheckpointOutcome>();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->path, "checkpoint_000001");
  EXPECT_EQ(names(told(2)), Names{});
  EXPECT_EQ(snapshot_.resolved_checkpoint, 1u);
}

TEST_F(WorkerMessagesTest, OfAShardThatCouldNotBeMadeOrStoredTheLauncherHearsWhy) {
  CheckpointStaged failed = staged(1, "half");
  failed.error = "the disk is full";
  failed.error_code = "no_space";
  say(failed);
  auto shard = supervisor_.wait_for<ShardWritten>();
  EXPECT_EQ(shard.error, "the disk is full");
  EXPECT_TRUE(shard.no_space);
  EXPECT_TRUE(shard.files.empty());

  const CheckpointStaged gone = staged(2, "");
  std::filesystem::remove_all(gone.dir);
  say(gone);
  shard = supervisor_.wait_for<ShardWritten>();
  EXPECT_EQ(shard.checkpoint_seq, 2u);
  EXPECT_FALSE(shard.no_space);
  EXPECT_NE(shard.error, "");
}

TEST_F(WorkerMessagesTest, AnAttemptThatIsReleasedLeavesNothingOfWhatWasStaged) {
  staged(1, "never handed over");

  supervisor_.send(StopWorkers{.grace_ms = 0, .reason = "Ctrl-C"});
  (void)supervisor_.wait_for<WorkerExited>();
  link_.reset();
  (void)supervisor_.wait_for<GroupGone>();
  supervisor_.send(ReleaseAttempt{});

  EXPECT_EQ(supervisor_.wait_for_end(), 0);
  EXPECT_FALSE(std::filesystem::exists(supervisor_.dir() + "/run/checkpoints/.staging-3"));
  EXPECT_FALSE(std::filesystem::exists(supervisor_.dir() + "/spool"));
}

TEST_F(WorkerMessagesTest, CallsThatNobodyAnswersEndItsConnection) {
  for (std::uint64_t sequence = 1; sequence <= 257; ++sequence)
    say(CollectiveJoin{.rank = 0, .sequence = sequence, .name = "sum", .data = ""});

  expect_ended_for("more than 256 calls that nobody has answered");
}

TEST_F(WorkerMessagesTest, QuestionsThatNobodyAnswersEndItsConnection) {
  for (std::uint64_t request = 1; request <= 257; ++request)
    say(AskCheckpoints{.rank = 0, .request = request});

  expect_ended_for("more than 256 calls that nobody has answered");
}

TEST_F(WorkerMessagesTest, ACallThatIsMadeAgainBeforeItsAnswerIsPassedOnOnce) {
  for (int i = 0; i < 3; ++i) {
    say(CollectiveJoin{.rank = 0, .sequence = 4, .name = "sum", .data = "x"});
    say(AskCheckpoints{.rank = 0, .request = 3});
  }
  wait_until_handled();
  supervisor_.attach(2);

  EXPECT_EQ(names(supervisor_.until(MessageType::AttemptSnapshot)),
            (Names{"CollectiveJoin", "AskCheckpoints", "AttemptSnapshot"}));
}

TEST_F(WorkerMessagesTest, ACallThatIsAnotherOneUnderTheSameNumberEndsItsConnection) {
  say(CollectiveJoin{.rank = 0, .sequence = 4, .name = "sum", .data = "x"});
  say(CollectiveJoin{.rank = 0, .sequence = 4, .name = "sum", .data = "y"});

  expect_ended_for("call 4 has no answer yet, and was made again with other data", "protocol");
}

TEST_F(WorkerMessagesTest, ACallWithASupervisorsNumberEndsItsConnection) {
  say(CollectiveJoin{.rank = 0, .sequence = kBackendCollectives + 1, .name = "x", .data = ""});

  expect_ended_for("a collective call of a worker has a supervisor's number", "protocol");
}

TEST_F(WorkerMessagesTest, ACheckpointThatIsStagedTwiceEndsItsConnection) {
  CheckpointStaged failed = staged(1, "half");
  failed.error = "the disk is full";
  say(failed);
  say(failed);

  expect_ended_for("checkpoint 1 was staged twice", "protocol");
}

TEST_F(WorkerMessagesTest, ACheckpointThatIsStagedAgainBeforeItsOutcomeEndsItsConnection) {
  CheckpointStaged failed = staged(1, "half");
  failed.error = "the disk is full";
  say(failed);
  (void)supervisor_.wait_for<ShardWritten>();
  say(failed);

  expect_ended_for("checkpoint 1 was staged twice", "protocol");
}

TEST_F(WorkerMessagesTest, ANextProgramOfARankThatHasReportedIsRefused) {
  ReportBatch batch;
  batch.first_report_seq = batch.count = 1;
  append_report(0, false, {}, batch.data);
  say(batch);
  wait_until_handled();

  const auto refused = join_again();

  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->message,
            "another program has already been rank 0 of this attempt, and has reported or taken "
            "part in a collective");
}

TEST_F(WorkerMessagesTest, ACallThatIsTooLargeEndsItsConnection) {
  const CollectiveJoin large{
      .rank = 0, .sequence = 1, .name = "sum", .data = std::string(kCallBytesMax, 'x')};
  const std::size_t bytes = encode(large, kAttempt).payload.size();

  say(large);

  expect_ended_for("a call has " + std::to_string(bytes) + " bytes; at most 131072 are allowed");
}

// ---- of a role that does not train

class OtherRoleTest : public WorkerLink {
 protected:
  void SetUp() override {
    supervisor_.attach(1);
    supervisor_.start_other_role("[ $ROLE_NAME$KIND = readerfast ] && exec sleep 1000");
    join();
  }
  /// Expect that the message ends the connection, and connect again.
  template <class Message>
  void expect_refused(const Message& message) {
    say(message);
    const auto refused = hear<Refused>();
    ASSERT_TRUE(refused) << to_string(Message::kType);
    EXPECT_EQ(refused->message,
              "only workers of the first role report, make checkpoints and "
              "take part in collectives");
    link_ = FileDescriptor();
    supervisor_.wait_for<WorkerJoined>();
    join();
  }
};

TEST_F(OtherRoleTest, SaysNothingOfTraining) {
  expect_refused(ReportBatch{.first_report_seq = 1, .count = 1, .data = "x"});
  expect_refused(CheckpointStaged{.checkpoint_seq = 1});
  expect_refused(CollectiveJoin{.sequence = 1, .name = "sum"});
  expect_refused(AskCheckpoints{.request = 1});
  expect_refused(WorkerPaused{.report_seq = 1});
  expect_refused(CheckpointPosition{.request = 1});
  expect_refused(WorkerResult{.json = "{}"});
}

TEST_F(OtherRoleTest, HearsOfNoPause) {
  supervisor_.send(PauseWorkers{.step = "pause", .reason = "why"});
  supervisor_.send(RequestCheckpoint{.request = 1, .step = "ask"});
  supervisor_.attach(2);
  (void)supervisor_.wait_for<AttemptSnapshot>();  // it has handled both
  say(WorkerGoodbye{});
  const auto first = hear_frame();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->type, MessageType::GoodbyeAck) << to_string(first->type);
}

}  // namespace
}  // namespace train
