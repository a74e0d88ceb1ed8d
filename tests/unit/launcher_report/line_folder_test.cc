#include "launcher/report/line_folder.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace train {
namespace {

using Ranks = std::vector<std::int32_t>;
using Lines = std::vector<FoldedLine>;

constexpr TimePoint at(Duration since) { return TimePoint(seconds(100)) + since; }

TEST(LineFolder, MakesOneLineOfTheSameLineOfManyRanks) {
  LineFolder folder({});
  for (const std::int32_t rank : {2, 0, 5, 1})
    EXPECT_EQ(folder.feed(rank, "loading", at(milliseconds(rank))), Lines{});

  EXPECT_EQ(folder.next_deadline(), at(milliseconds(102)));
  EXPECT_EQ(folder.due(at(milliseconds(101))), Lines{});
  EXPECT_EQ(folder.due(at(milliseconds(102))), (Lines{{"loading", Ranks{0, 1, 2, 5}}}));
  EXPECT_EQ(folder.next_deadline(), std::nullopt);
}

TEST(LineFolder, WaitsForNoOtherRankOnceAllHaveTheLine) {
  LineFolder folder({});
  folder.ranks_are(2);
  EXPECT_EQ(folder.feed(0, "a", at(seconds(0))), Lines{});
  EXPECT_EQ(folder.feed(0, "b", at(seconds(0))), Lines{});

  EXPECT_EQ(folder.feed(1, "b", at(seconds(0))), Lines{}) << "rank 0 has printed a before";
  EXPECT_EQ(folder.feed(1, "a", at(seconds(0))), Lines{}) << "rank 1 has printed b before";
  EXPECT_EQ(folder.flush(), (Lines{{"a", {0}}, {"b", {0, 1}}, {"a", {1}}}));

  EXPECT_EQ(folder.feed(1, "a", at(seconds(0))), Lines{});
  EXPECT_EQ(folder.feed(0, "a", at(seconds(0))), (Lines{{"a", {0, 1}}}));
}

TEST(LineFolder, ALineThatARankRepeatsIsThereAsOften) {
  LineFolder folder({});
  for (const std::int32_t rank : {0, 0, 1, 1, 1})
    EXPECT_EQ(folder.feed(rank, "x", at(seconds(0))), Lines{});

  EXPECT_EQ(folder.flush(), (Lines{{"x", {0, 1}}, {"x", {0, 1}}, {"x", {1}}}));
}

TEST(LineFolder, ALineOfALaterWindowIsAnotherOne) {
  LineFolder folder({});
  EXPECT_EQ(folder.feed(0, "x", at(seconds(0))), Lines{});

  EXPECT_EQ(folder.feed(1, "y", at(milliseconds(100))), (Lines{{"x", {0}}}));
  EXPECT_EQ(folder.feed(1, "x", at(milliseconds(100))), Lines{});
  EXPECT_EQ(folder.flush(), (Lines{{"y", {1}}, {"x", {1}}}));
}

TEST(LineFolder, HoldsNoMoreThanItsLimits) {
  LineFolder few({.lines_max = 2}), small({.bytes_max = 10});
  EXPECT_EQ(few.feed(0, "a", at(seconds(0))), Lines{});
  EXPECT_EQ(few.feed(0, "b", at(seconds(0))), Lines{});
  EXPECT_EQ(few.feed(0, "c", at(seconds(0))), (Lines{{"a", {0}}}));

  EXPECT_EQ(small.feed(0, "12345678", at(seconds(0))), Lines{});
  EXPECT_EQ(small.feed(0, "abc", at(seconds(0))), (Lines{{"12345678", {0}}}));
  EXPECT_EQ(small.feed(0, "a line of its own", at(seconds(0))),
            (Lines{{"abc", {0}}, {"a line of its own", {0}}}));
}

/// Random streams of few different lines: whoever takes the folded lines apart gets exactly the
/// lines of each rank, in their order, and none has waited for longer than the window.
TEST(LineFolder, LosesAndReordersNothing) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
    const int ranks = 1 + below(8), texts = 1 + below(5);
    LineFolder folder({.window = milliseconds(10),
                       .lines_max = static_cast<std::size_t>(1 + below(30)),
                       .bytes_max = static_cast<std::size_t>(1 + below(200))});
    if (below(2) == 0) folder.ranks_are(static_cast<std::size_t>(ranks));
    std::map<std::int32_t, std::vector<std::string>> printed, shown;
    std::size_t folded = 0;
    const auto show = [&](const Lines& lines) {
      for (const FoldedLine& line : lines) {
        folded += line.ranks.size() > 1;
        for (const std::int32_t rank : line.ranks) shown[rank].push_back(line.text);
        EXPECT_TRUE(std::is_sorted(line.ranks.begin(), line.ranks.end()));
        EXPECT_EQ(std::adjacent_find(line.ranks.begin(), line.ranks.end()), line.ranks.end());
      }
    };
    TimePoint now = at(seconds(0));
    for (int step = 0; step < 400; ++step) {
      now += milliseconds(below(3));
      if (const auto due = folder.next_deadline(); due && now >= *due) {
        show(folder.due(now));
        ASSERT_TRUE(!folder.next_deadline() || *folder.next_deadline() > now) << seed;
      }
      if (below(50) == 0) show(folder.flush());
      const std::int32_t rank = below(static_cast<unsigned>(ranks));
      const std::string text(static_cast<std::size_t>(1 + below(static_cast<unsigned>(texts))),
                             'x');
      printed[rank].push_back(text);
      show(folder.feed(rank, text, now));
    }
    show(folder.flush());

    ASSERT_EQ(shown, printed) << "seed " << seed;
    if (ranks > 4 && texts < 3) EXPECT_GT(folded, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace train
