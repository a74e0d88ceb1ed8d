// Checkpoints that lack space, and those that somebody asks for.
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

constexpr const char* kFull = "6291456 bytes were written, 0 are free in '/s/vit'";

ShardStaged without_space(int rank, std::uint64_t index) {
  ShardStaged event = staged(kFirst, rank, index);
  event.shard.error = kFull;
  event.shard.no_space = true;
  return event;
}
/// Send all shards of one checkpoint; rank 1's found no space.
Actions fail_one(Driven& d, std::uint64_t index) {
  d.handle(staged(kFirst, 0, index));
  return d.handle(without_space(1, index));
}
CommitFinished committed(std::uint64_t index, const FreeSpace& space = {}) {
  return {kFirst, index, checkpoint(index), "", false, space};
}
void commit_one(Driven& d, std::uint64_t index) {
  d.handle(staged(kFirst, 0, index));
  d.handle(staged(kFirst, 1, index));
  d.handle(committed(index));
}
std::vector<std::string> warnings(const Actions& actions) {
  std::vector<std::string> texts;
  for (const Note& note : only<Note>(actions)) texts.push_back(note.text);
  return texts;
}
using Texts = std::vector<std::string>;

TEST(RunControllerCheckpoints, OneWithoutSpaceIsGivenUpAndTheOneBeforeStays) {
  Driven d;
  d.running();
  commit_one(d, 1);

  const Actions actions = fail_one(d, 2);

  EXPECT_EQ(warnings(actions),
            (Texts{std::string("checkpoint 2 of attempt 0 is not kept: rank 1: ") + kFull +
                   "; training continues"}));
  EXPECT_EQ(only<TellCheckpoint>(actions).size(), 2u);
  EXPECT_EQ(d.run.state(), RunState::Running);
  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(1));
}

TEST(RunControllerCheckpoints, ThreeInARowWithoutSpaceEndTheRun) {
  Driven d(two_workers(/*max_failures=*/5));
  d.running();
  fail_one(d, 1);
  fail_one(d, 2);
  EXPECT_EQ(d.run.state(), RunState::Running);

  const Actions actions = fail_one(d, 3);

  const std::string cause =
      std::string("3 checkpoints in a row were not kept for lack of space; the last: rank 1: ") +
      kFull;
  EXPECT_EQ(warnings(actions),
            (Texts{std::string("checkpoint 3 of attempt 0 is not kept: rank 1: ") + kFull}));
  EXPECT_EQ(only<StopGroup>(actions),
            (std::vector<StopGroup>{{kFirst, kNodeA, seconds(1), cause},
                                    {kFirst, kNodeB, seconds(1), cause}}));
  d.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions end = d.handle(NodeGroupGone{kFirst, kNodeB});
  ASSERT_EQ(only<AttemptEnded>(end).size(), 1u);
  EXPECT_EQ(only<AttemptEnded>(end)[0].cause, cause);
  EXPECT_EQ(d.run.state(), RunState::Errored);
}

TEST(RunControllerCheckpoints, ACommitWithoutSpaceCountsToo) {
  Driven d;
  d.running();
  fail_one(d, 1);
  fail_one(d, 2);
  d.handle(staged(kFirst, 0, 3));
  d.handle(staged(kFirst, 1, 3));

  d.handle(CommitFinished{kFirst, 3, {}, kFull, /*no_space=*/true, {}});

  EXPECT_EQ(d.run.state(), RunState::TearingDown);
}

TEST(RunControllerCheckpoints, OneThatIsCommittedResetsTheCountOfThoseBefore) {
  Driven d;
  d.running();
  fail_one(d, 1);
  fail_one(d, 2);
  commit_one(d, 3);

  fail_one(d, 4);
  fail_one(d, 5);

  EXPECT_EQ(d.run.state(), RunState::Running);
}

TEST(RunControllerCheckpoints, OtherErrorsAreNoWantOfSpace) {
  Driven d;
  d.running();
  for (std::uint64_t index = 1; index <= 4; ++index) {
    d.handle(staged(kFirst, 0, index));
    ShardStaged broken = staged(kFirst, 1, index);
    broken.shard.error = "its writer threw";
    d.handle(broken);
  }

  EXPECT_EQ(d.run.state(), RunState::Running);
}

TEST(RunControllerCheckpoints, LittleRoomForTheNextIsSaidOnce) {
  Driven d;
  d.running();
  const FreeSpace little{.needed = 5000, .free = 4999, .where = "/s/vit"};
  const FreeSpace enough{.needed = 5000, .free = 5000, .where = "/s/vit"};
  std::vector<Texts> said;
  for (const FreeSpace& space : {little, little, enough, little, FreeSpace{}}) {
    const std::uint64_t index = said.size() + 1;
    d.handle(staged(kFirst, 0, index));
    d.handle(staged(kFirst, 1, index));
    said.push_back(warnings(d.handle(committed(index, space))));
  }

  const Texts warning{
      "the next checkpoint may not fit: the last one has 5000 bytes, 4999 are free in '/s/vit' "
      "(free some space, or lower checkpoint_config.num_to_keep)"};
  EXPECT_EQ(said, (std::vector<Texts>{warning, {}, {}, warning, {}}));
}

/// Let both nodes wait for workers that restore the third of three checkpoints.
void start_from_the_third(Driven& d) {
  d.nodes();
  d.handle(AttemptPrepared{kFirst, kNodeA, 41000});
  d.handle(AttemptPrepared{kFirst, kNodeB, 0});
}
RunStart three_checkpoints() {
  return {.checkpoint = checkpoint(3),
          .older = {checkpoint(1), checkpoint(2)},
          .last_checkpoint_number = 3,
          .expected_nodes = 2};
}
const Error kOtherBytes{Errc::Corrupt, "'a' came with 5 bytes"};

TEST(RunControllerCheckpoints, OneThatIsNotWholeOnANodeIsFollowedByTheOneBefore) {
  Driven d(two_workers(), three_checkpoints());
  start_from_the_third(d);

  const Actions first = d.handle(StartRefused{kFirst, kNodeB, Rank{0}, kOtherBytes});
  const Actions second = d.handle(StartRefused{kFirst, kNodeA, Rank{0}, kOtherBytes});

  EXPECT_EQ(warnings(first), (Texts{"skipping checkpoint_3, which is not intact: 'a' came with 5 "
                                    "bytes; continuing from checkpoint_2"}));
  EXPECT_EQ(warnings(second), Texts{});              // about the same checkpoint
  ASSERT_EQ(only<AttemptBegun>(second).size(), 1u);  // though no failure is allowed
  EXPECT_EQ(only<AttemptBegun>(second)[0].restore, checkpoint(2));
}

TEST(RunControllerCheckpoints, WhereNoneIsWholeItBeginsFromTheBeginning) {
  const CheckpointInfo only_one{1, "/runs/vit-7/checkpoint_000001", 3};
  Driven d(two_workers(), {.checkpoint = only_one, .expected_nodes = 2});
  start_from_the_third(d);

  const Actions refused = d.handle(StartRefused{kFirst, kNodeB, Rank{0}, kOtherBytes});
  const Actions gone = d.handle(NodeGroupGone{kFirst, kNodeA});

  EXPECT_EQ(warnings(refused), (Texts{"skipping checkpoint_000001, which is not intact: 'a' came "
                                      "with 5 bytes; continuing from the beginning"}));
  ASSERT_EQ(only<AttemptBegun>(gone).size(), 1u);
  EXPECT_EQ(only<AttemptBegun>(gone)[0].restore, std::nullopt);
}

/// Let a rank fail, and the next attempt find that its checkpoint is not intact.
void find_the_newest_not_intact(Driven& d) {
  d.handle(RankExited{kFirst, Rank{0}, exited(1)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(NodeGroupGone{kFirst, kNodeB});
  d.handle(AttemptPrepared{kSecond, kNodeA, 41000});
  d.handle(AttemptPrepared{kSecond, kNodeB, 0});
  d.handle(StartRefused{kSecond, kNodeA, Rank{0}, kOtherBytes});
}

TEST(RunControllerCheckpoints, WhereNoneIsWholeItBeginsFromTheOneThatTheUserNamed) {
  Driven d(two_workers(/*max_failures=*/1), {.checkpoint = checkpoint(0), .expected_nodes = 2});
  d.running();
  commit_one(d, 1);
  CommitFinished removed = committed(2);
  removed.removed = {1};
  for (const int rank : {0, 1}) d.handle(staged(kFirst, rank, 2));
  d.handle(removed);

  find_the_newest_not_intact(d);

  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(0));
}

TEST(RunControllerCheckpoints, TheOneThatTheUserNamedIsNotReplaced) {
  Driven d(two_workers(), {.checkpoint = checkpoint(0), .expected_nodes = 2});
  start_from_the_third(d);

  d.handle(StartRefused{kFirst, kNodeB, Rank{0}, kOtherBytes});
  d.handle(NodeGroupGone{kFirst, kNodeA});

  EXPECT_EQ(d.run.state(), RunState::Errored);
}

TEST(RunControllerCheckpoints, OneThatRetentionRemovedIsNotGoneBackTo) {
  Driven d(two_workers(/*max_failures=*/1));
  d.running();
  commit_one(d, 1);
  commit_one(d, 2);
  d.handle(staged(kFirst, 0, 3));
  d.handle(staged(kFirst, 1, 3));
  CommitFinished third = committed(3);
  third.removed = {2};
  d.handle(third);

  find_the_newest_not_intact(d);

  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(1));
}

TEST(RunControllerCheckpoints, OneThatWasRemovedAfterAValidationIsNotGoneBackTo) {
  Driven d(two_workers(/*max_failures=*/1));
  d.running();
  for (std::uint64_t index : {1, 2, 3}) commit_one(d, index);
  d.handle(ValidationFinished{3, {2}});

  find_the_newest_not_intact(d);

  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(1));
}

// ---- that somebody asks for

void joined(Driven& d) {
  for (const int rank : {0, 1}) d.handle(RankJoined{kFirst, Rank{rank}});
}
CheckpointPositionTold position(int rank, std::uint64_t reports) {
  return {kFirst, Rank{rank}, 1, reports, 0, true};
}
ShardStaged asked_for(int rank, std::uint64_t index, std::uint64_t request = 1) {
  ShardStaged event = staged(kFirst, rank, index);
  event.shard.request = request;
  return event;
}
std::vector<OrderCheckpoint> order_both(const CheckpointOrder& order) {
  return {{kFirst, kNodeA, order}, {kFirst, kNodeB, order}};
}
constexpr CheckpointOrder kAsk{.request = 1};
constexpr CheckpointOrder kMake{.request = 1, .step = CheckpointStep::Make, .report_seq = 6};
constexpr CheckpointOrder kCancel{.request = 1, .step = CheckpointStep::Cancel};
using Answers = std::vector<CheckpointAnswered>;

TEST(CheckpointNow, IsMadeByAllRanksAndTheGroupGoesOn) {
  Driven d;
  d.running();
  joined(d);
  EXPECT_EQ(only<OrderCheckpoint>(d.handle(CheckpointAsked{"a"})), order_both(kAsk));
  d.handle(position(0, 5));
  EXPECT_EQ(only<OrderCheckpoint>(d.handle(position(1, 4))), order_both(kMake));
  d.handle(asked_for(0, 1));
  d.handle(asked_for(1, 1));
  EXPECT_EQ(only<CheckpointAnswered>(d.handle(committed(1))),
            (Answers{{.id = "a", .number = checkpoint(1).number}}));
  EXPECT_EQ(d.run.state(), RunState::Running);
}

TEST(CheckpointNow, ASupervisorOverANewLinkHearsTheNewestOrderAgain) {
  Driven d;
  d.running();
  joined(d);
  d.handle(CheckpointAsked{"a"});
  const Actions again = d.handle(SupervisorAttached{kFirst, kNodeB});
  EXPECT_EQ(only<OrderCheckpoint>(again), (std::vector<OrderCheckpoint>{{kFirst, kNodeB, kAsk}}));
}

TEST(CheckpointNow, AStopLetsRanksThatAreHeldGoOn) {
  Driven d;
  d.running();
  joined(d);
  d.handle(CheckpointAsked{"a"});
  const Actions stopped = d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"});
  EXPECT_EQ(only<OrderCheckpoint>(stopped), order_both(kCancel));
  EXPECT_EQ(only<CheckpointAnswered>(stopped).size(), 1u);
  EXPECT_EQ(only<CheckpointAnswered>(d.handle(CheckpointAsked{"b"})).at(0).number, 0u);
}

TEST(CheckpointNow, IsRefusedBeforeThereAreWorkers) {
  Driven d;
  EXPECT_EQ(only<CheckpointAnswered>(d.handle(CheckpointAsked{"a"})),
            (Answers{{.id = "a", .error = "the run has no workers now: it is scheduling"}}));
}

TEST(CheckpointNow, OneOfWhichOnlyAPartWasAskedForIsNotKept) {
  Driven d;
  d.running();
  d.handle(asked_for(0, 1));
  EXPECT_EQ(warnings(d.handle(staged(kFirst, 1, 1))),
            (Texts{"checkpoint 1 of attempt 0 is not kept: rank 0 made checkpoint 1 because it was "
                   "asked for, rank 1 did not, so the ranks' checkpoints of this attempt do not "
                   "belong together any more; training continues"}));
  // Rank 1 is one checkpoint behind for good, so the next one is mixed too.
  d.handle(staged(kFirst, 0, 2));
  const Actions next = d.handle(staged(kFirst, 1, 2));
  EXPECT_EQ(only<Commit>(next).size(), 0u);
  EXPECT_EQ(warnings(next).size(), 1u);
}

}  // namespace
}  // namespace train
