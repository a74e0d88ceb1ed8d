// Rounds of reports: which lines of metrics.jsonl belong together.
#include "sdk/trainer/report_rounds.h"

#include <gtest/gtest.h>

namespace train::trainer {
namespace {

/// Rounds with a log whose n-th line is at byte n.
class Rounds : public testing::Test {
 protected:
  void report(int rank, std::uint64_t number, int attempt = 0) {
    rounds.add({rank, attempt, number}, {lines++, 1});
  }
  std::vector<std::uint64_t> offsets(const RoundPlaces& round) {
    std::vector<std::uint64_t> offsets;
    for (const LinePlace& line : round.lines) offsets.push_back(line.offset);
    return offsets;
  }
  ReportRounds rounds;
  std::uint64_t lines = 0;
};

TEST_F(Rounds, ARoundIsCompleteOnceAllRanksHaveReported) {
  rounds.attempt_began(0, 2, "");
  report(1, 1);
  report(1, 2);
  EXPECT_FALSE(rounds.next());
  EXPECT_EQ(rounds.missing(), std::vector<int>{0});
  report(0, 1);

  const auto first = rounds.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(offsets(*first), (std::vector<std::uint64_t>{2, 0}));
  EXPECT_EQ(first->number, 1u);
  EXPECT_EQ(first->ordinal, 1u);
  EXPECT_FALSE(first->redone);
  EXPECT_FALSE(rounds.next());
  EXPECT_EQ(rounds.counts(), (std::vector<std::uint64_t>{1, 2}));
  report(0, 2);
  EXPECT_EQ(offsets(*rounds.next()), (std::vector<std::uint64_t>{3, 1}));
  EXPECT_EQ(rounds.missing(), std::vector<int>{}) << "nobody waits";
}

TEST_F(Rounds, AfterAFailureTheyCountOnFromTheCheckpointAndSayWhatIsDoneAgain) {
  rounds.attempt_began(0, 1, "");
  for (std::uint64_t number = 1; number <= 4; ++number) report(0, number);
  while (rounds.next()) {
  }
  rounds.committed("checkpoint_000001", 0, 2);

  rounds.attempt_began(1, 1, "checkpoint_000001");
  report(0, 5, 0);  // of the attempt before: too late
  for (std::uint64_t number = 1; number <= 3; ++number) report(0, number, 1);
  std::vector<std::pair<std::uint64_t, bool>> ordinals;
  while (const auto round = rounds.next()) {
    EXPECT_EQ(round->attempt, 1);
    ordinals.emplace_back(round->ordinal, round->redone);
  }
  EXPECT_EQ(ordinals,
            (std::vector<std::pair<std::uint64_t, bool>>{{3, true}, {4, true}, {5, false}}));

  rounds.committed("checkpoint_000002", 1, 1);  // of ordinal 3
  rounds.attempt_began(2, 1, "checkpoint_000002");
  report(0, 1, 2);
  EXPECT_EQ(rounds.next()->ordinal, 4u);
}

TEST_F(Rounds, RepeatedAndImpossibleLinesCountOnce) {
  rounds.attempt_began(0, 2, "");
  report(0, 1);
  report(0, 1);
  report(7, 1);
  report(-1, 1);
  report(0, 3);
  report(1, 1);
  EXPECT_EQ(offsets(*rounds.next()), (std::vector<std::uint64_t>{0, 5}));
  EXPECT_FALSE(rounds.next());
  EXPECT_EQ(rounds.counts(), (std::vector<std::uint64_t>{1, 1}));
}

TEST_F(Rounds, AnAttemptThatIsToldOfAgainGoesOn) {
  rounds.attempt_began(3, 1, "");
  report(0, 1, 3);
  ASSERT_TRUE(rounds.next());
  rounds.attempt_began(3, 1, "");
  report(0, 2, 3);
  EXPECT_EQ(rounds.next()->number, 2u);
}

TEST(ReportFront, IsThatOfALineOfTheLog) {
  const auto front = read_front(
      R"({"rank":3,"attempt":1,"report_seq":42,"time":"2026-11-21T09:38:00.123456Z","checkpoint":false,"metrics":{}})");
  ASSERT_TRUE(front);
  EXPECT_EQ(front->rank, 3);
  EXPECT_EQ(front->attempt, 1);
  EXPECT_EQ(front->number, 42u);
  for (const char* other :
       {"", "{}", R"({"rank":"3"})", R"({"rank":3,"attempt":1,"report_seq":42})",
        R"({"rank":99999999999,"attempt":1,"report_seq":1,)"})
    EXPECT_FALSE(read_front(other)) << other;
}

}  // namespace
}  // namespace train::trainer
