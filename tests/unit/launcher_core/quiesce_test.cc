// How a group comes to rest, without a controller. The ranks are a table, and answers come singly.
#include "launcher/core/quiesce.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using Next = Quiesce::Next;

struct Group {
  explicit Group(bool at_checkpoint = false, TimePoint deadline = kStart + seconds(30))
      : quiesce(kStart, deadline, at_checkpoint) {
    for (int rank = 0; rank < 2; ++rank) {
      change(rank, [](auto& entry) {
        entry.joined = true;
        entry.reported = 5;
      });
    }
  }
  const RankTable::Entry& of(int rank) { return *ranks.find(Rank{rank}); }
  template <class Change>
  void change(int rank, Change&& how) {
    ranks.change(Rank{rank}, how);
  }
  void pause(int rank, std::uint64_t report_seq, std::uint64_t checkpoint = 0,
             bool arrived = false) {
    change(rank, [&](auto& entry) {
      entry.paused = entry.reported = report_seq;
      entry.checkpoint_seq = checkpoint;
      entry.arrived = arrived;
      entry.checkpoint_pending = false;
    });
  }
  void arrive_without_checkpoint(int rank, std::uint64_t report_seq) {
    pause(rank, report_seq, 0, true);
    change(rank, [](auto& entry) { entry.checkpoint_pending = true; });
  }
  Next advance(Duration after = {}) { return quiesce.advance(ranks, around, kStart + after); }
  std::pair<PauseStep, std::uint64_t> told() const {
    return {quiesce.to_send(), quiesce.meeting()};
  }

  RankTable ranks{both()};
  Quiesce quiesce;
  Quiesce::Surroundings around;
};

std::pair<PauseStep, std::uint64_t> step(PauseStep step, std::uint64_t report_seq) {
  return {step, report_seq};
}

TEST(Quiesce, RanksMeetWhereTheFurthestPausedAndLeaveOnceTheirCheckpointIsResolved) {
  Group g;
  EXPECT_EQ(g.told(), step(PauseStep::Pause, 0));
  g.pause(0, 6);
  EXPECT_EQ(g.advance(), Next::Wait);
  g.pause(1, 7);
  EXPECT_EQ(g.advance(), Next::Send);
  EXPECT_EQ(g.told(), step(PauseStep::Advance, 7));
  EXPECT_FALSE(g.of(1).paused);  // each rank must confirm it again

  g.pause(1, 7, 3, true);
  EXPECT_EQ(g.advance(), Next::Wait);
  g.pause(0, 7, 3, true);
  g.around.committing = true;
  EXPECT_EQ(g.advance(), Next::AwaitCommit);
  g.around = {.resolved_checkpoint = 3};
  EXPECT_EQ(g.advance(seconds(4)), Next::Send);
  EXPECT_EQ(g.told(), step(PauseStep::Finish, 7));
  EXPECT_TRUE(g.quiesce.finishing());
  EXPECT_EQ(g.quiesce.next_deadline(kStart + seconds(4)), kStart + seconds(4) + kFinishGrace);
  EXPECT_EQ(g.advance(seconds(4)), Next::Wait);
  EXPECT_EQ(g.advance(seconds(4) + kFinishGrace), Next::TimedOut);
}

TEST(Quiesce, RanksMakeTheirCheckpointsOnceAllAreThere) {
  Group g;
  g.pause(0, 6);
  g.pause(1, 7);
  g.advance();
  g.arrive_without_checkpoint(1, 7);
  EXPECT_EQ(g.advance(), Next::Wait);  // rank 0 is on its way
  g.pause(0, 7, 3, true);              // its report carries a checkpoint

  EXPECT_EQ(g.advance(), Next::Send);
  EXPECT_EQ(g.told(), step(PauseStep::Checkpoint, 7));
  EXPECT_TRUE(g.quiesce.meeting_at_report());
  EXPECT_EQ(g.advance(), Next::Wait);  // told once
  EXPECT_FALSE(g.quiesce.next_deadline(kStart) == kStart + kStragglerPause);

  g.pause(1, 7, 3, true);
  g.around = {.resolved_checkpoint = 3};
  EXPECT_EQ(g.advance(), Next::Send);
  EXPECT_EQ(g.told(), step(PauseStep::Finish, 7));
  EXPECT_FALSE(g.quiesce.meeting_at_report());
}

// Found by chaos: ranks that made a checkpoint on arrival were one ahead of the one that came to
// its end, no last checkpoint became complete, and the run finished without it.
TEST(Quiesce, RanksMakeNoCheckpointIfOneOfThemCameToItsEndMeanwhile) {
  Group g;
  g.pause(0, 6);
  g.advance(kGatherPause);  // nobody can reach rank 1
  ASSERT_EQ(g.told(), step(PauseStep::Advance, 6));
  g.arrive_without_checkpoint(0, 6);
  EXPECT_EQ(g.advance(seconds(2)), Next::Wait);
  g.change(1, [](auto& entry) { entry.reported = 9; });
  g.ranks.ended(Rank{1}, exited(0));

  EXPECT_EQ(g.advance(seconds(3)), Next::Send);

  EXPECT_EQ(g.told(), step(PauseStep::Advance, UINT64_MAX));
}

TEST(Quiesce, RanksMakeNoCheckpointThatARankWithoutReportsWouldLack) {
  Group g;
  g.change(1, [](auto& entry) { entry = {.node = kNodeB}; });
  g.pause(0, 6);
  g.advance();
  g.advance(kStragglerPause);
  ASSERT_EQ(g.told(), step(PauseStep::Advance, 6));
  g.arrive_without_checkpoint(0, 6);

  EXPECT_EQ(g.advance(seconds(9)), Next::Wait);

  g.change(1, [](auto& entry) { entry.joined = true; });
  g.pause(1, 6, 3, true);
  EXPECT_EQ(g.advance(seconds(9)), Next::Send);
  EXPECT_EQ(g.told(), step(PauseStep::Checkpoint, 6));
}

TEST(Quiesce, ARankThatCameToItsEndAfterTheOthersWereToldMovesThemOn) {
  Group g;
  g.pause(0, 6);
  g.pause(1, 6);
  g.advance();
  for (int rank : {0, 1}) g.arrive_without_checkpoint(rank, 6);
  g.advance();
  ASSERT_EQ(g.told(), step(PauseStep::Checkpoint, 6));
  g.ranks.ended(Rank{1}, exited(0));

  EXPECT_EQ(g.advance(), Next::Send);

  EXPECT_EQ(g.told(), step(PauseStep::Advance, UINT64_MAX));
}

TEST(Quiesce, ARankThatWaitsForAPausedOneInACollectiveIsMetAtItsNextReport) {
  Group g;
  g.pause(0, 5);
  g.change(1, [](auto& entry) { entry.reported = 5; });
  EXPECT_EQ(g.advance(kGatherPause - Duration{1}), Next::Wait);
  EXPECT_EQ(g.quiesce.next_deadline(kStart), kStart + kGatherPause);

  EXPECT_EQ(g.advance(kGatherPause), Next::Send);

  EXPECT_EQ(g.told(), step(PauseStep::Advance, 6));
}

TEST(Quiesce, ARankThatHasNotReportedYetIsWaitedForALittle) {
  Group g;
  g.change(1, [](auto& entry) { entry = {.node = kNodeB}; });
  g.pause(0, 6);
  EXPECT_EQ(g.advance(seconds(5)), Next::Wait);
  EXPECT_EQ(g.quiesce.next_deadline(kStart + seconds(5)), kStart + seconds(5) + kStragglerPause);
  EXPECT_EQ(g.advance(seconds(5) + kStragglerPause - Duration{1}), Next::Wait);

  EXPECT_EQ(g.advance(seconds(5) + kStragglerPause), Next::Send);

  EXPECT_EQ(g.told(), step(PauseStep::Advance, 6));
}

TEST(Quiesce, AtACheckpointRanksPauseWhereTheyHandOneOverHoweverLongThatTakes) {
  Group g(true, TimePoint::max());
  EXPECT_EQ(g.advance(std::chrono::hours(1)), Next::Wait);
  EXPECT_EQ(g.quiesce.next_deadline(kStart), std::nullopt);
  g.pause(0, 6, 2);
  g.pause(1, 6, 2);
  EXPECT_EQ(g.advance(std::chrono::hours(1)), Next::Send);
  EXPECT_EQ(g.told(), step(PauseStep::Advance, 6));

  g.pause(0, 8, 3, true);  // its next report with a checkpoint is a later one
  g.pause(1, 6, 2, true);
  EXPECT_EQ(g.advance(std::chrono::hours(1)), Next::Send);
  EXPECT_EQ(g.told(), step(PauseStep::Advance, 8));
  EXPECT_TRUE(g.of(0).paused);  // it is already there
  EXPECT_FALSE(g.of(1).paused);
}

TEST(Quiesce, EscalatedItMeetsAtAnyReport) {
  Group g(true, TimePoint::max());
  g.pause(0, 6, 2);
  g.pause(1, 6, 2);
  g.advance();

  EXPECT_TRUE(g.quiesce.escalate(kStart + seconds(9), kStart));

  EXPECT_EQ(g.told(), step(PauseStep::Pause, 0));
  EXPECT_FALSE(g.quiesce.at_checkpoint());
  EXPECT_FALSE(g.quiesce.escalate(kStart + seconds(8), kStart));  // it is already hurrying
  EXPECT_EQ(g.advance(seconds(8)), Next::TimedOut);
}

TEST(Quiesce, WhoLeavesForGoodMeetsWhereARankCameToItsEnd) {
  Group g;
  g.around.for_good = true;
  g.change(1, [](auto& entry) { entry.reported = 9; });
  g.ranks.ended(Rank{1}, exited(0));
  g.pause(0, 6);

  EXPECT_EQ(g.advance(), Next::Send);

  EXPECT_EQ(g.told(), step(PauseStep::Advance, 9));
}

TEST(Quiesce, AGroupThatIsToFormAnewGoesOnToItsOwnEndOnceARankCameToIts) {
  Group g;
  g.pause(0, 6);
  g.pause(1, 6);
  g.advance();
  g.ranks.ended(Rank{1}, exited(0));

  EXPECT_EQ(g.advance(), Next::Send);

  EXPECT_EQ(g.told(), step(PauseStep::Advance, UINT64_MAX));
}

TEST(Quiesce, WithoutARankThatEndedTheOthersCheckpointIsNotWaitedForForEver) {
  Group g;
  g.around.for_good = true;
  g.ranks.ended(Rank{1}, exited(1));
  g.pause(0, 6);
  g.advance();
  g.pause(0, 6, 3, true);
  EXPECT_EQ(g.advance(), Next::Wait);
  EXPECT_EQ(g.quiesce.next_deadline(kStart), kStart + kStragglerPause);

  EXPECT_EQ(g.advance(kStragglerPause), Next::Send);

  EXPECT_TRUE(g.quiesce.finishing());
}

TEST(Quiesce, KnowsWhichReportsAreBeyondTheMeeting) {
  Group g;
  EXPECT_FALSE(g.quiesce.is_past_the_end(100));
  g.pause(0, 6);
  g.pause(1, 7);
  g.advance();
  EXPECT_FALSE(g.quiesce.is_past_the_end(7));
  EXPECT_TRUE(g.quiesce.is_past_the_end(8));

  Group at_checkpoint(true);  // the meeting point may still move
  at_checkpoint.pause(0, 6);
  at_checkpoint.pause(1, 7);
  at_checkpoint.advance();
  EXPECT_FALSE(at_checkpoint.quiesce.is_past_the_end(8));
}

}  // namespace
}  // namespace train
