#include "launcher/core/search/asha.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

namespace train {

void PrintTo(const TrialsToTime& row, std::ostream* out) {
  *out << row.trials << " to " << row.time;
}
void PrintTo(const AshaBracket& bracket, std::ostream* out) {
  *out << bracket.trials << " by";
  for (const std::int64_t time : bracket.rungs) *out << " " << time;
}

namespace {

using Preview = std::vector<TrialsToTime>;
using Brackets = std::vector<AshaBracket>;

TEST(AshaBrackets, AreThoseOfDetermined) {
  EXPECT_EQ(asha_preview({.max_time = 1000, .divisor = 5}, 10), (Preview{{7, 200}, {3, 1000}}));
  EXPECT_EQ(asha_preview({.max_time = 64, .divisor = 4}, 64),
            (Preview{{34, 1}, {20, 4}, {7, 16}, {3, 64}}));
}

TEST(AshaBrackets, FollowTheMode) {
  AshaSpec spec{.max_time = 64, .divisor = 4, .mode = AshaMode::Aggressive};
  EXPECT_EQ(asha_brackets(spec, 64), (Brackets{{{1, 4, 16, 64}, 64}}));
  spec.mode = AshaMode::Standard;
  EXPECT_EQ(asha_brackets(spec, 64),
            (Brackets{{{1, 4, 16, 64}, 45}, {{4, 16, 64}, 14}, {{16, 64}, 5}}));
  spec.mode = AshaMode::Conservative;
  EXPECT_EQ(asha_brackets(spec, 64),
            (Brackets{{{1, 4, 16, 64}, 43}, {{4, 16, 64}, 14}, {{16, 64}, 5}, {{64}, 2}}));
}

TEST(AshaBrackets, CountRungsInIntegers) {
  // log(1000)/log(10) is 2.9999999999999996.
  EXPECT_EQ(asha_brackets({.max_time = 1000, .divisor = 10, .mode = AshaMode::Aggressive}, 1000),
            (Brackets{{{1, 10, 100, 1000}, 1000}}));
  EXPECT_EQ(asha_brackets({.max_time = 999, .divisor = 10, .mode = AshaMode::Aggressive}, 1000),
            (Brackets{{{9, 99, 999}, 1000}}));
}

TEST(AshaBrackets, StayWithinTheirLimits) {
  EXPECT_EQ(asha_brackets({.max_time = 1}, 1), (Brackets{{{1}, 1}}));
  EXPECT_EQ(asha_brackets({.max_time = 64, .max_rungs = 2, .mode = AshaMode::Aggressive}, 64),
            (Brackets{{{16, 64}, 64}}));
  // No more trials than there are, also if each bracket is to have one.
  EXPECT_EQ(asha_brackets({.max_time = 64, .divisor = 2, .mode = AshaMode::Conservative}, 2),
            (Brackets{{{32, 64}, 1}, {{64}, 1}}));
  const AshaSpec widest{.max_time = std::int64_t{1} << 53, .divisor = 2, .max_rungs = 20};
  EXPECT_EQ(asha_brackets(widest, kTrialsMax).front().rungs.size(), 17u);
}

TEST(Asha, StopsWhatIsNotAmongTheBest) {
  // One bracket with rungs at 1, 4 and 16; of 4 trials, one goes on.
  Asha asha({.max_time = 16, .divisor = 4, .mode = AshaMode::Aggressive}, SearchMode::Min, 16);
  EXPECT_FALSE(asha.reported(0, 1, 0.5)) << "the first always goes on";
  EXPECT_TRUE(asha.reported(1, 1, 0.6));
  EXPECT_FALSE(asha.reported(2, 1, 0.4)) << "the best of three";
  EXPECT_TRUE(asha.reported(3, 1, 0.45)) << "the second of four";
  EXPECT_FALSE(asha.reported(4, 1, 0.3));
  EXPECT_TRUE(asha.reported(5, 1, 0.35));
  EXPECT_TRUE(asha.reported(6, 1, 0.36));
  EXPECT_FALSE(asha.reported(7, 1, 0.31)) << "the second of eight; two may go on";
  EXPECT_FALSE(asha.reported(0, 2, 9)) << "between rungs nothing is decided";
  EXPECT_FALSE(asha.reported(0, 4, 9)) << "the first at the second rung";
  EXPECT_TRUE(asha.reported(0, 16, 0)) << "the last rung is the end";
}

TEST(Asha, TakesTheGreatestIfThatIsAsked) {
  Asha asha({.max_time = 4, .divisor = 2, .mode = AshaMode::Aggressive}, SearchMode::Max, 8);
  EXPECT_FALSE(asha.reported(0, 1, 0.5));
  EXPECT_TRUE(asha.reported(1, 1, 0.4));
  EXPECT_FALSE(asha.reported(2, 1, 0.6));
}

TEST(Asha, OneReportMayPassSeveralRungs) {
  Asha asha({.max_time = 16, .divisor = 4, .mode = AshaMode::Aggressive}, SearchMode::Min, 16);
  EXPECT_FALSE(asha.reported(0, 7, 0.5));
  EXPECT_EQ(asha.next_rung(0), 16);
  EXPECT_TRUE(asha.reported(1, 7, 0.6)) << "it is judged at the first one that it is not good for";
  EXPECT_EQ(asha.next_rung(1), 4);
}

TEST(Asha, NotANumberIsTheWorst) {
  Asha asha({.max_time = 4, .divisor = 2, .mode = AshaMode::Aggressive}, SearchMode::Max, 8);
  EXPECT_FALSE(asha.reported(0, 1, std::nan("")));
  EXPECT_FALSE(asha.reported(1, 1, -INFINITY));
  EXPECT_TRUE(asha.reported(2, 1, std::nan("")));
  EXPECT_FALSE(asha.reported(3, 1, 0)) << "first of four";
  EXPECT_TRUE(asha.reported(4, 1, std::nan("")));
}

TEST(Asha, AFailedTrialCountsAsTheWorst) {
  Asha asha({.max_time = 4, .divisor = 2, .mode = AshaMode::Aggressive}, SearchMode::Min, 8);
  asha.failed(0);
  asha.failed(1);
  EXPECT_FALSE(asha.reported(2, 1, 5));
  EXPECT_FALSE(asha.reported(3, 1, 6)) << "the second of four, of which two failed";
}

TEST(Asha, TrialsInPlaceOfInvalidOnesAreInTheDeepestBracket) {
  Asha asha({.max_time = 64, .divisor = 4}, SearchMode::Min, 64);
  EXPECT_EQ(asha.next_rung(63), 16);
  EXPECT_EQ(asha.next_rung(64), 1);
}

}  // namespace
}  // namespace train
