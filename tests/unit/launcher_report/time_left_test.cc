#include "launcher/report/time_left.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TimePoint at(int s) { return TimePoint{} + seconds(s); }

TEST(TimeLeft, ComesFromThePaceOfACounter) {
  TimeLeft left({{"epoch", 9}});
  EXPECT_EQ(left.left(at(0)), std::nullopt);
  left.reported({{"epoch", std::int64_t{0}}}, at(10));
  EXPECT_EQ(left.left(at(10)), std::nullopt) << "it has not moved";
  left.reported({{"epoch", std::int64_t{1}}}, at(70));
  left.reported({{"epoch", std::int64_t{1}}}, at(90));  // within the epoch
  EXPECT_EQ(left.left(at(90)), seconds(8 * 60 - 20));
  EXPECT_EQ(left.left(at(1000)), seconds(0)) << "later than foretold";
}

TEST(TimeLeft, IsThatOfTheGoalThatIsReachedFirst) {
  TimeLeft left({{"epoch", 9}, {"step", 100}});
  left.reported({{"epoch", std::int64_t{0}}, {"step", std::int64_t{0}}}, at(0));
  left.reported({{"epoch", std::int64_t{1}}, {"step", std::int64_t{50}}}, at(60));
  EXPECT_EQ(left.left(at(60)), seconds(60));
}

TEST(TimeLeft, BeginsAnewWhereTheCounterGoesBack) {
  TimeLeft left({{"step", 100}});
  left.reported({{"step", std::int64_t{0}}}, at(0));
  left.reported({{"step", std::int64_t{40}}}, at(40));
  left.reported({{"step", std::int64_t{30}}}, at(100));  // from a checkpoint
  EXPECT_EQ(left.left(at(100)), std::nullopt);
  left.reported({{"step", std::int64_t{50}}}, at(140));
  EXPECT_EQ(left.left(at(140)), seconds(100));
}

TEST(TimeLeft, OfWhatIsNoCounterThereIsNone) {
  TimeLeft left({{"accuracy", 1}, {"loss", 0.5}, {"name", 3}});
  left.reported({{"accuracy", 0.5}, {"loss", 3.0}, {"name", std::string("a")}}, at(0));
  left.reported({{"accuracy", 0.6}, {"loss", 4.0}, {"name", std::string("b")}}, at(10));
  EXPECT_EQ(left.left(at(10)), std::nullopt);
  TimeLeft endless({{"step", 1e300}});
  endless.reported({{"step", std::int64_t{0}}}, at(0));
  endless.reported({{"step", std::int64_t{1}}}, at(10));
  EXPECT_EQ(endless.left(at(10)), std::nullopt) << "no overflow";
}

}  // namespace
}  // namespace train
