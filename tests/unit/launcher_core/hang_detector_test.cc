// Which ranks hang, and which only wait or are slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/launcher_core/hang_group.h"

namespace train {
namespace {

using Kind = HangDetector::Finding::Kind;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HangDetector, SaysAtHalfOfTheLimitThatARankIsSuspectAndAtAllOfItThatItHangs) {
  Group group(1, limit(minutes(5)));
  group.enters(0, Phase::Data, "train");
  EXPECT_THAT(kinds(group.pass(seconds(149))), ElementsAre());
  const auto suspect = group.pass(seconds(2));
  ASSERT_THAT(kinds(suspect), ElementsAre(Kind::Suspect));
  EXPECT_EQ(
      suspect[0].text,
      "rank 0 on n0 has been in data 'train' for 2 min 30 s, step 41; its processes are idle; "
      "after 5 min 0 s (hang_timeout) it counts as hung");
  EXPECT_FALSE(suspect[0].fails);
  EXPECT_THAT(kinds(group.pass(seconds(148))), ElementsAre());
  const auto hung = group.pass(seconds(2));
  ASSERT_THAT(kinds(hung), ElementsAre(Kind::Hung));
  EXPECT_EQ(hung[0].text,
            "rank 0 on n0 hangs in data 'train': no sign of life for 5 min 0 s, step 41; its "
            "processes are idle (limit 5 min 0 s: hang_timeout)");
  EXPECT_TRUE(hung[0].fails);
  EXPECT_THAT(kinds(group.pass(minutes(60))), ElementsAre());  // said once
}

TEST(HangDetector, NeverAccusesARankThatWaitsForAnother) {
  Group group(3, limit(minutes(5)));
  for (const int rank : {0, 1}) {
    group.enters(rank, Phase::Collective, "gradients");
    group.progress(rank).collectives = 41;
  }
  group.progress(2).collectives = 41;  // it has made as many calls, and is in none
  group.enters(2, Phase::Data, "train");

  const auto found = group.pass(minutes(10));

  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_EQ(found[1].ranks, std::vector<Rank>{Rank{2}});
  EXPECT_EQ(found[1].text,
            "rank 2 on n0 hangs in data 'train': no sign of life for 5 min 0 s, step 41; its "
            "processes are idle (limit 5 min 0 s: hang_timeout); ranks 0, 1 wait in collective "
            "'gradients' (call 42), not entered by rank 2 (41 calls made)");
}

TEST(HangDetector, SaysWhoIsMissingInACallAndHowManyCallsEachHasMade) {
  Group group(5, limit(minutes(5)));
  for (const int rank : {0, 3}) group.enters(rank, Phase::Collective, "gradients");
  for (const int rank : {0, 1, 3}) group.progress(rank).collectives = 7;
  group.enters(2, Phase::Collective, "metrics");  // it is two calls behind
  group.progress(2).collectives = 5;
  group.progress(4).collectives = 1;

  const auto found = group.pass(minutes(5));

  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.back().text,
              HasSubstr("; ranks 0, 3 wait in collective 'gradients' (call 8), not entered by rank "
                        "4 (1 call made), rank 2 (5 calls made), rank 1 (7 calls made)"));
  EXPECT_THAT(found.back().text, HasSubstr("; rank 2 waits in collective 'metrics' (call 6), not "
                                           "entered by rank 4 (1 call made)"));
}

TEST(HangDetector, SaysThatRanksHaveEnteredDifferentCalls) {
  Group group(3, limit(minutes(5)));
  for (const int rank : {0, 2}) group.enters(rank, Phase::Collective, "gradients");
  group.enters(1, Phase::Collective, "barrier");

  const auto found = group.pass(minutes(5));

  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.back().text, HasSubstr("; the ranks have entered different calls: rank 1 "
                                           "'barrier', ranks 0, 2 'gradients'"));
}

TEST(HangDetector, AccusesTheRankThatIsCallsBehind) {
  Group group(2, limit(minutes(5)));
  group.enters(0, Phase::Collective, "b");
  group.progress(0).collectives = 7;
  group.enters(1, Phase::Collective, "a");
  group.progress(1).collectives = 6;
  const auto found = group.pass(minutes(5));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_EQ(found[1].ranks, std::vector<Rank>{Rank{1}});
}

TEST(HangDetector, AccusesAllRanksOfACallToWhichAllHaveCome) {
  Group group(2, limit(minutes(5)));
  for (const int rank : {0, 1}) group.enters(rank, Phase::Collective, "gradients");
  const auto found = group.pass(minutes(5));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_EQ(found[1].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_THAT(found[1].text, HasSubstr("ranks 0, 1 on n0 hang in collective 'gradients' (call 1)"));
}

// When the last rank has come, the others go on, but their newest samples may be older than that.
TEST(HangDetector, GivesARankThatHasWaitedForAnotherItsTimeAnew) {
  FailureConfig config = limit(seconds(10));
  config.phase_timeouts = {{"step", minutes(20)}};
  for (const auto& [waits_in, other_is_in] :
       {std::pair(Phase::Collective, Phase::Step), std::pair(Phase::Once, Phase::Own)}) {
    Group group(2, config);
    group.enters(1, other_is_in);
    group.progress(1).limit_us = 1'200'000'000;
    group.enters(0, waits_in);
    EXPECT_THAT(kinds(group.pass(minutes(9))), ElementsAre());
    ++group.progress(1).collectives;
    group.enters(1, Phase::Step);

    EXPECT_THAT(kinds(group.pass(seconds(4))), ElementsAre());
    EXPECT_THAT(kinds(group.pass(seconds(1))), ElementsAre(Kind::Suspect));
    EXPECT_THAT(kinds(group.pass(seconds(4))), ElementsAre());
    EXPECT_THAT(kinds(group.pass(seconds(1))), ElementsAre(Kind::Hung));
  }
}

TEST(HangDetector, DoesNotTakeAWaitOfWhichItHasNotSeenTheBeginningForAHang) {
  Group group(1, limit(seconds(10)));
  group.process(0).pid = 7;  // its first sample
  group.enters(0, Phase::Collective);
  group.progress(0).quiet_us = 600'000'000;
  EXPECT_THAT(kinds(group.pass(seconds(5))), ElementsAre());
  EXPECT_THAT(kinds(group.pass(seconds(6))), ElementsAre(Kind::Suspect, Kind::Hung));
}

// It had waited for nine minutes before: that says nothing of the limit.
TEST(HangDetector, AWaitForAnotherRankDoesNotShowThatALearnedLimitWasRight) {
  Group group(2);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Collective)) = {1000, 0, 1000};
  group.enters(0, Phase::Collective);
  (void)group.pass(minutes(9));
  ++group.progress(1).collectives;
  group.sign(1);
  ASSERT_THAT(kinds(group.pass(minutes(1))), ElementsAre(Kind::Hung));
  EXPECT_EQ(group.learned(), HangDetector::Learned::Unknown);
  (void)group.pass(minutes(1));
  EXPECT_EQ(group.learned(), HangDetector::Learned::Right);
}

TEST(HangDetector, AccusesNobodyWhoMayWaitForARankThatItDoesNotSee) {
  Group group(2, limit(minutes(5)));
  (void)group.pass(seconds(1));
  group.loses_touch_with(1);
  group.enters(0, Phase::Collective, "gradients");
  EXPECT_THAT(kinds(group.pass(minutes(20))), ElementsAre());
}

TEST(HangDetector, NeverAccusesARankThatWaitsForOneThatHasNotCalledTheSdkYet) {
  Group group(2, limit(minutes(5)));
  group.enters(0, Phase::Collective, "joining the process group");
  group.progress(1).phase = Phase::None;
  EXPECT_THAT(kinds(group.pass(minutes(20), /*busy=*/1)), ElementsAre());
}

TEST(HangDetector, NeverAccusesARankThatWaitsForOneOfItsNodeInOncePerNode) {
  Group group(2, limit(minutes(5)));
  group.enters(0, Phase::Once, "unpack");
  group.enters(1, Phase::Own, "unpack");
  const auto found = group.pass(minutes(5));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_EQ(found[1].ranks, std::vector<Rank>{Rank{1}});
  EXPECT_THAT(found[1].text, HasSubstr("rank 0 waits in once_per_node 'unpack'"));
}

TEST(HangDetector, DoesNotJudgeWaitsForTrainRunByHangTimeout) {
  FailureConfig config = limit(minutes(5));
  Group group(2, config);
  group.enters(0, Phase::Wait);
  group.enters(1, Phase::Report);
  EXPECT_THAT(kinds(group.pass(minutes(60))), ElementsAre());

  config.phase_timeouts = {{"wait", minutes(20)}};
  Group limited(1, config);
  limited.enters(0, Phase::Wait);
  EXPECT_THAT(kinds(limited.pass(minutes(20))), ElementsAre(Kind::Suspect, Kind::Hung));
}

// What it waits for may be out of sight for a while, or its limit longer since it is busy.
TEST(HangDetector, JudgesAStoppedProcessEvenWhereItWaitsForTrainRun) {
  Group group(1, limit(minutes(5)));
  group.enters(0, Phase::Report);
  group.process(0).state = "T";

  const auto found = group.pass(minutes(5));

  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_THAT(found[1].text, HasSubstr("its process is stopped by a signal"));
}

TEST(HangDetector, DoesNotSayThatARankMovesAgainBeforeItDoes) {
  Group group(2, limit(minutes(5)));
  for (const int rank : {0, 1}) group.enters(rank, Phase::Collective, "gradients");
  ASSERT_THAT(kinds(group.pass(minutes(5))), ElementsAre(Kind::Suspect, Kind::Hung));
  group.loses_touch_with(1);
  EXPECT_THAT(kinds(group.pass(minutes(1))), ElementsAre());
  group.sign(0);
  EXPECT_THAT(kinds(group.pass(seconds(1))), ElementsAre(Kind::Cleared));
}

TEST(HangDetector, ComputesLimitsFromAnySilence) {
  Group group(1);
  constexpr std::int64_t kMost = std::int64_t{1} << 50;  // as controller_messages lets through
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, kMost, kMost};
  EXPECT_THAT(kinds(group.pass(minutes(60), /*busy=*/0)), ElementsAre());
}

TEST(HangDetector, GivesTwiceHangTimeoutToARankThatIsBusy) {
  Group group(2, limit(minutes(5)));
  const auto found = group.pass(minutes(10), /*busy=*/0);
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Suspect, Kind::Hung, Kind::Hung));
  EXPECT_EQ(found[2].ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(found[3].ranks, std::vector<Rank>{Rank{0}});
  EXPECT_THAT(found[3].text, HasSubstr("its processes use 90 % of a CPU"));
}

TEST(HangDetector, TakesTheLimitsOfPhasesExactly) {
  FailureConfig config = limit(minutes(5));
  config.phase_timeouts = {{"step", seconds(30)}, {"eval", minutes(20)}};
  Group group(2, config);
  group.enters(1, Phase::Own, "eval");
  const auto found = group.pass(minutes(10), /*busy=*/0);
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung, Kind::Suspect));
  EXPECT_EQ(found[1].ranks, std::vector<Rank>{Rank{0}});
  EXPECT_THAT(found[1].text, HasSubstr("limit 30.0 s: phase_timeouts.step"));
  EXPECT_EQ(found[2].ranks, std::vector<Rank>{Rank{1}});
}

TEST(HangDetector, TakesTheLimitThatTheProgramSetsForItsPhase) {
  Group group(1);
  group.enters(0, Phase::Own, "download");
  group.progress(0).limit_us = 60'000'000;
  group.progress(0).text = "3 of 9 GiB";
  const auto found = group.pass(minutes(1));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_THAT(found[1].text, HasSubstr("in 'download' (3 of 9 GiB): no sign of life for 1 min"));
  EXPECT_TRUE(found[1].fails);
}

TEST(HangDetector, LearnsALimitOnceEnoughStepsAreSeenAndOnlySaysSo) {
  Group group(2);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {7, 0, 20'000'000};
  EXPECT_THAT(kinds(group.pass(minutes(60))), ElementsAre());  // seven are not enough
  group.sign(0);
  group.sign(1);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {8, 0, 20'000'000};
  EXPECT_THAT(kinds(group.pass(seconds(99))), ElementsAre());
  const auto found = group.pass(seconds(1));  // five times the longest
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Hung));
  EXPECT_FALSE(found[0].fails);
  EXPECT_THAT(found[0].text, HasSubstr("limit 1 min 40 s: learned from the steps so far"));
}

TEST(HangDetector, LearnsNoLimitBelowAMinuteAStep) {
  Group group(1);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, 0, 1000};
  EXPECT_THAT(kinds(group.pass(seconds(59))), ElementsAre());
  EXPECT_THAT(kinds(group.pass(seconds(1))), ElementsAre(Kind::Hung));
}

TEST(HangDetector, FailsByALearnedLimitOnlyIfToldTo) {
  FailureConfig config;
  config.hang_action = HangAction::Fail;
  Group group(1, config);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, 0, 1000};
  EXPECT_THAT(kinds(group.pass(minutes(9))), ElementsAre());  // to end a group takes more
  const auto found = group.pass(minutes(1));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Hung));
  EXPECT_TRUE(found[0].fails);
}

TEST(HangDetector, FailsByALearnedLimitWhereTheRunHasSeenThatTheyAreRight) {
  Group group(1, {}, /*trusts_learned=*/true);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, 0, 1000};
  EXPECT_THAT(kinds(group.pass(minutes(9))), ElementsAre());
  const auto found = group.pass(minutes(1));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Hung));
  EXPECT_TRUE(found[0].fails);

  FailureConfig observe;
  observe.hang_action = HangAction::Observe;
  Group observed(1, observe, /*trusts_learned=*/true);
  observed.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, 0, 1000};
  const auto seen = observed.pass(minutes(10));
  ASSERT_THAT(kinds(seen), ElementsAre(Kind::Hung));
  EXPECT_FALSE(seen[0].fails);
}

TEST(HangDetector, ALearnedLimitWasRightIfTheRankIsSilentForTwiceThatTime) {
  using Learned = HangDetector::Learned;
  Group group(1);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, 0, 1000};
  (void)group.pass(seconds(119));
  EXPECT_EQ(group.learned(), Learned::Unknown);
  (void)group.pass(seconds(1));
  EXPECT_EQ(group.learned(), Learned::Right);
  group.sign(0);
  (void)group.pass(seconds(1));
  EXPECT_EQ(group.learned(), Learned::Wrong);

  Group given(1, limit(minutes(1)));
  (void)given.pass(minutes(10));
  EXPECT_EQ(given.learned(), Learned::Unknown);  // nothing was learned
}

TEST(HangDetector, OnlyObservesIfToldTo) {
  FailureConfig config = limit(minutes(5));
  config.hang_action = HangAction::Observe;
  Group group(1, config);
  const auto found = group.pass(minutes(5));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_FALSE(found[1].fails);
}

TEST(HangDetector, SaysThatARankMovesAgainAndIsThenMorePatientWithWhatItHadLearned) {
  Group group(1);
  group.progress(0).intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, 0, 1000};
  ASSERT_THAT(kinds(group.pass(seconds(60))), ElementsAre(Kind::Hung));
  group.sign(0);
  const auto cleared = group.pass(seconds(1));
  ASSERT_THAT(kinds(cleared), ElementsAre(Kind::Cleared));
  EXPECT_EQ(cleared[0].text, "rank 0 on n0 moves again, after a silence of 1 min 0 s");
  group.sign(0);
  EXPECT_THAT(kinds(group.pass(seconds(119))), ElementsAre());
  EXPECT_THAT(kinds(group.pass(seconds(1))), ElementsAre(Kind::Hung));
}

// ---- who is slow for a reason

/// Make a group that has had many short intervals in each phase.
Group used_to_short_waits(int ranks = 1) {
  Group group(ranks);
  for (PhaseIntervals& intervals : group.progress(0).intervals) intervals = {100, 0, 1'000'000};
  return group;
}

TEST(HangDetector, LeavesAFirstStepItsTime) {
  Group group = used_to_short_waits();
  group.enters(0, Phase::Start);
  EXPECT_THAT(kinds(group.pass(minutes(60))), ElementsAre());

  Group limited(1, limit(minutes(10)));
  limited.enters(0, Phase::Start);
  EXPECT_THAT(kinds(limited.pass(seconds(299))), ElementsAre());
}

TEST(HangDetector, LeavesCheckpointsAndValidationsFiveMinutesAtLeast) {
  for (const Phase phase : {Phase::Checkpoint, Phase::Validate}) {
    Group group = used_to_short_waits();
    group.enters(0, phase);
    EXPECT_THAT(kinds(group.pass(seconds(299))), ElementsAre());
    EXPECT_THAT(kinds(group.pass(seconds(1))), ElementsAre(Kind::Hung));
  }
}

TEST(HangDetector, AccusesNobodyWhoSaysHowFarItsDownloadIs) {
  Group group(2, limit(minutes(5)));
  group.enters(0, Phase::Own, "download");
  group.enters(1, Phase::Collective, "barrier");
  for (int part = 0; part < 30; ++part) {
    EXPECT_THAT(kinds(group.pass(seconds(149))), ElementsAre());
    group.progress(0).text = std::to_string(part) + " of 30 parts";
    group.sign(0);
  }
}

// While a machine is suspended, its clock stands still, and so does the silence of its workers; the
// launcher may run elsewhere.
TEST(HangDetector, AccusesNobodyOnAMachineThatWasSuspended) {
  Group group(1, limit(minutes(5)));
  (void)group.pass(seconds(10));
  group.loses_touch_with(0);
  EXPECT_THAT(kinds(group.pass(minutes(60))), ElementsAre());
  group.progress(0).quiet_us = 12'000'000;
  group.loses_touch_with(-1);
  EXPECT_THAT(kinds(group.pass(seconds(60))), ElementsAre());
}

TEST(HangDetector, SaysForWhichFileARankWaits) {
  Group group(1, limit(minutes(5)));
  group.process(0).waits_for = "read of '/data/x' (nfs4 at /data)";
  const auto idle = group.pass(minutes(5));
  ASSERT_FALSE(idle.empty());
  EXPECT_THAT(idle.back().text, HasSubstr("; its processes are idle, in read of '/data/x' (nfs4 at "
                                          "/data) (limit 5 min 0 s: hang_timeout)"));

  Group blocked(1, limit(minutes(5)));
  blocked.process(0).state = "D";
  blocked.process(0).waits_in = "rpc_wait";
  blocked.process(0).waits_for = "read of '/data/x' (nfs4 at /data)";
  const auto found = blocked.pass(minutes(5));
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.back().text, HasSubstr("its process waits in the kernel, in read of '/data/x' "
                                           "(nfs4 at /data), in rpc_wait (state D)"));
}

TEST(HangDetector, JudgesNoRankThatADebuggerHolds) {
  Group group(1, limit(minutes(5)));
  group.process(0).state = "t";
  EXPECT_THAT(kinds(group.pass(minutes(60))), ElementsAre());
}

TEST(HangDetector, JudgesNoRankThatPausesOrHasEnded) {
  Group group(2, limit(minutes(5)));
  group.change(0, [](auto& entry) { entry.paused = 3; });
  group.change(1, [](auto& entry) { entry.end = WorkerEnd{}; });
  EXPECT_THAT(kinds(group.pass(minutes(60))), ElementsAre());
}

TEST(HangDetector, SaysWhatAStoppedOrBlockedProcessDoes) {
  Group group(2, limit(minutes(5)));
  group.process(0).state = "T";
  group.process(1).state = "D";
  group.process(1).waits_in = "nfs_wait_bit_killable";
  group.enters(1, Phase::Data, "train");
  const auto found = group.pass(minutes(5));
  ASSERT_EQ(found.size(), 4u);
  EXPECT_THAT(found[3].text, HasSubstr("its process waits in the kernel, in nfs_wait_bit_killable "
                                       "(state D)"));
  EXPECT_THAT(found[2].text, HasSubstr("its process is stopped by a signal"));
}

TEST(HangDetector, JudgesProgramsWithoutTheSdkByWhatTheyUseAndOnlyUnderHangTimeout) {
  Group unlimited(1);
  unlimited.progress(0).phase = Phase::None;
  EXPECT_THAT(kinds(unlimited.pass(minutes(60))), ElementsAre());

  Group group(1, limit(minutes(5)));
  group.progress(0).phase = Phase::None;
  EXPECT_THAT(kinds(group.pass(minutes(60), /*busy=*/0)), ElementsAre());
  const auto found = group.pass(minutes(5));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_THAT(found[1].text, HasSubstr("rank 0 on n0 hangs: it has done nothing for 5 min 0 s"));
}

// Whatever the ranks do: one that waits in a call which another has not reached is not accused.
TEST(HangDetector, NeverAccusesWhoWaitsWhateverTheOthersDo) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Group group(4, limit(seconds(10)));
    for (int round = 0; round < 20; ++round) {
      for (int rank = 0; rank < 4; ++rank) {
        if (random() % 2 == 0) continue;
        const bool calls = random() % 2 == 0;
        if (group.progress(rank).phase == Phase::Collective) ++group.progress(rank).collectives;
        group.enters(rank, calls ? Phase::Collective : Phase::Step);
      }
      for (const auto& found : group.pass(seconds(random() % 15))) {
        if (found.kind != Kind::Hung) continue;
        for (const Rank accused : found.ranks) {
          const WorkerProgress& of_it = group.progress(accused.value);
          if (of_it.phase != Phase::Collective) continue;
          for (int other = 0; other < 4; ++other) {
            const WorkerProgress& beside = group.progress(other);
            EXPECT_GE(beside.collectives, of_it.collectives) << "seed " << seed;
            if (beside.collectives == of_it.collectives)
              EXPECT_EQ(beside.phase, Phase::Collective) << "seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace train
