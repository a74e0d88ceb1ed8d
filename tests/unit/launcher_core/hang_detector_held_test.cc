// Ranks whose process is stopped, or waits in the kernel, and what excuses the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher_core/hang_group.h"

namespace train {
namespace {

using Kind = HangDetector::Finding::Kind;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Make a group of programs without the SDK.
Group without_sdk(int ranks) {
  Group group(ranks, limit(minutes(5)));
  for (int rank = 0; rank < ranks; ++rank) group.progress(rank).phase = Phase::None;
  return group;
}

TEST(HangDetector, BlamesTheStoppedProcessOfAGroupWithoutTheSdkAndNobodyElse) {
  Group group = without_sdk(3);
  (void)group.pass(seconds(10), /*busy=*/1);
  group.process(1).state = "T";

  const auto found = group.pass(minutes(20));

  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_EQ(found[1].ranks, std::vector<Rank>{Rank{1}});
  EXPECT_EQ(
      found[1].text,
      "rank 1 on n0 hangs: it has done nothing for 5 min 0 s; its process is stopped by a "
      "signal (limit 5 min 0 s: hang_timeout); ranks 0, 2 do nothing either, and may wait for "
      "it");
}

TEST(HangDetector, BlamesAProcessThatWaitsInTheKernelAndNobodyElse) {
  Group group = without_sdk(2);
  (void)group.pass(seconds(10), /*busy=*/1);
  group.process(1).state = "D";
  group.process(1).waits_in = "rpc_wait";

  const auto found = group.pass(minutes(5));

  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_THAT(found[1].text, HasSubstr("rank 1 on n0 hangs: it has done nothing for 5 min 0 s; its "
                                       "process waits in the kernel, in rpc_wait (state D)"));
  EXPECT_THAT(found[1].text, HasSubstr("; rank 0 does nothing either, and may wait for it"));
}

TEST(HangDetector, GivesRanksTheirTimeAnewOnceTheOneThatWasStoppedGoesOn) {
  Group group = without_sdk(2);
  (void)group.pass(seconds(10), /*busy=*/1);
  group.process(1).state = "T";
  (void)group.pass(minutes(4));
  group.process(1).state = "S";
  EXPECT_THAT(kinds(group.pass(seconds(149), /*busy=*/1)), ElementsAre(Kind::Cleared));
  const auto found = group.pass(minutes(4), /*busy=*/1);
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_EQ(found[1].ranks, std::vector<Rank>{Rank{0}});
}

// It cannot have waited for the other one.
TEST(HangDetector, AccusesARankThatDidNothingLongBeforeAnotherWasStopped) {
  Group group = without_sdk(2);
  (void)group.pass(minutes(4), /*busy=*/1);
  group.process(1).state = "T";
  const auto found = group.pass(minutes(1));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().kind, Kind::Hung);
  EXPECT_EQ(found.back().ranks, std::vector<Rank>{Rank{0}});
}

TEST(HangDetector, BlamesTheStoppedRankFirstWhereAllAreInOnePhase) {
  Group group(3, limit(minutes(5)));
  group.process(2).state = "T";
  const auto found = group.pass(minutes(5));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Suspect, Kind::Hung, Kind::Hung));
  EXPECT_EQ(found[2].ranks, std::vector<Rank>{Rank{2}});
  EXPECT_EQ(found[3].ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
}

// ---- what excuses a rank is what it uses now

TEST(HangDetector, GivesARankNoMoreTimeForWhatItUsedLongAgo) {
  Group group(1, limit(minutes(5)));
  group.sign(0);
  EXPECT_THAT(kinds(group.pass(minutes(1), /*busy=*/0)), ElementsAre());
  const auto found = group.pass(minutes(4));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_THAT(found[1].text, HasSubstr("; its processes are idle (limit 5 min 0 s: hang_timeout)"));
}

TEST(HangDetector, SaysThatAProgramWithoutTheSdkIsIdleAlthoughItHasComputedBefore) {
  Group group = without_sdk(1);
  (void)group.pass(minutes(60), /*busy=*/0);
  const auto found = group.pass(minutes(5));
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_THAT(found[1].text, HasSubstr("; its processes are idle (limit"));
}

// It is seen in the kernel each second because it reads much, and so nobody waits for it.
TEST(HangDetector, AProcessThatReadsIsNotHeldAndExcusesNobody) {
  Group group = without_sdk(2);
  (void)group.pass(seconds(10), /*busy=*/0);
  group.process(1).state = "D";
  const auto found = group.pass(minutes(5), /*busy=*/1);
  ASSERT_THAT(kinds(found), ElementsAre(Kind::Suspect, Kind::Hung));
  EXPECT_EQ(found[1].ranks, std::vector<Rank>{Rank{0}});
}

}  // namespace
}  // namespace train
