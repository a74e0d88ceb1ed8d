#include "launcher/report/stream_choice.h"

#include <gtest/gtest.h>

namespace train {
namespace {

/// Return the streams of local ranks 0, 1 and 2, as a digit each.
std::string chosen(std::string_view text) {
  const auto choice = StreamChoice::parse(text);
  if (!choice) return choice.error().message;
  std::string digits;
  for (int rank = 0; rank < 3; ++rank)
    digits +=
        std::to_string((choice->contains(rank, 1) ? 1 : 0) + (choice->contains(rank, 2) ? 2 : 0));
  return digits;
}

TEST(StreamChoice, IsOneNumberForAllOrOneForEachLocalRank) {
  EXPECT_EQ(chosen("0"), "000");
  EXPECT_EQ(chosen("1"), "111");
  EXPECT_EQ(chosen("2"), "222");
  EXPECT_EQ(chosen("3"), "333");
  EXPECT_EQ(chosen("0:1,2:3"), "103");
  EXPECT_EQ(chosen("1:0,2:2"), "002");
  EXPECT_FALSE(StreamChoice().contains(0, 1));
}

TEST(StreamChoice, SaysWhichPartIsWrong) {
  EXPECT_EQ(chosen(""), "'' names no streams");
  EXPECT_EQ(chosen("4"), "'4' names no streams");
  EXPECT_EQ(chosen("-1"), "'-1' names no streams");
  EXPECT_EQ(chosen("0:1,x:2"), "'x:2' names no streams");
  EXPECT_EQ(chosen("0:1,"), "'' names no streams");
  EXPECT_EQ(chosen("0:"), "'0:' names no streams");
  EXPECT_EQ(chosen("99999999999:1"), "'99999999999:1' names no streams");
  EXPECT_EQ(chosen("1:1,1:2"), "local rank 1 is named twice");
  EXPECT_EQ(chosen(std::string(5000, '1')), "the value has 5000 characters, more than 4096");
}

}  // namespace
}  // namespace train
