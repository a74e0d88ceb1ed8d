#include "launcher/report/rank_set.h"

#include <gtest/gtest.h>

#include "lib/base/rank_ranges.h"

namespace train {
namespace {

TEST(RankSet, HoldsTheRanksAndRangesThatItsTextNames) {
  const RankSet set = RankSet::parse("8,0-3,2-4").value();
  std::vector<std::int32_t> held;
  for (std::int32_t rank = 0; rank < 20; ++rank)
    if (set.contains(rank)) held.push_back(rank);

  EXPECT_EQ(held, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 8}));
  EXPECT_EQ(rank_ranges(held), "0-4,8");
  EXPECT_EQ(set.first_missing([](std::int32_t rank) { return rank != 4; }), 4);
  EXPECT_EQ(set.first_missing([](std::int32_t) { return true; }), std::nullopt);
}

TEST(RankSet, KnowsWhetherItIsOneRank) {
  EXPECT_TRUE(RankSet::parse("3").value().single());
  EXPECT_TRUE(RankSet::parse("3,3-3").value().single());
  EXPECT_FALSE(RankSet::parse("3-4").value().single());
  EXPECT_FALSE(RankSet::parse("3,4").value().single());
}

TEST(RankSet, SaysWhichPartOfATextIsWrong) {
  const auto mistake = [](const std::string& text) {
    const auto set = RankSet::parse(text);
    return set ? "none" : set.error().message;
  };
  EXPECT_EQ(mistake("0,3-1"), "the range '3-1' ends before it begins");
  for (const char* part :
       {"", "x", "-1", "1-", "1--2", "1-2-3", " 1", "+1", "1000000", "9999999999"})
    EXPECT_EQ(mistake(std::string("5,") + part),
              "'" + std::string(part) + "' is no rank and no range of ranks");
  EXPECT_EQ(mistake(std::string(5000, '1')),
            "the set of ranks has 5000 characters, more than 4096");
}

TEST(RankRanges, AreOfSortedRanks) {
  const auto text = [](std::vector<std::int32_t> ranks) { return rank_ranges(ranks); };
  EXPECT_EQ(text({}), "");
  EXPECT_EQ(text({5}), "5");
  EXPECT_EQ(text({0, 1}), "0-1");
  EXPECT_EQ(text({0, 2, 3, 4, 9}), "0,2-4,9");
}

}  // namespace
}  // namespace train
