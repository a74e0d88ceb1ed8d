#include "launcher/report/output_view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

namespace train {
namespace {

constexpr TimePoint at(Duration since) { return TimePoint(seconds(100)) + since; }
constexpr TimePoint kAt = at(seconds(0));

TEST(OutputView, MakesWholeLinesOfPieces) {
  OutputView view({.fold = false});

  EXPECT_EQ(view.feed("a", 0, 1, "he", false, kAt), "");
  EXPECT_EQ(view.feed("b", 3, 1, "other\n", false, kAt), "[b 3] other\n");
  EXPECT_EQ(view.feed("a", 0, 2, "err\n", false, kAt), "[a 0] err\n");
  EXPECT_EQ(view.feed("a", 0, 1, "llo\n\nrest", false, kAt), "[a 0] hello\n[a 0] \n");
  EXPECT_EQ(view.feed("a", 0, 1, "", true, kAt), "[a 0] rest\n");
  EXPECT_EQ(view.feed("a", 0, 1, "", true, kAt), "");
}

TEST(OutputView, ShowsALineOfSeveralRanksOnce) {
  OutputView view({});
  EXPECT_EQ(view.begin(0, {0, 1, 0}), "");
  EXPECT_EQ(view.feed("a", 0, 1, "ready\n", false, kAt), "");
  EXPECT_EQ(view.feed("b", 2, 1, "ready\nmine\n", false, kAt), "");
  EXPECT_EQ(view.next_deadline(), at(milliseconds(100)));
  EXPECT_EQ(view.due(at(milliseconds(99))), "");
  EXPECT_EQ(view.due(at(milliseconds(100))), "[0,2] ready\n[b 2] mine\n");

  EXPECT_EQ(view.feed("a", 0, 1, "all\n", false, at(seconds(1))), "");
  EXPECT_EQ(view.feed("a", 1, 2, "all\n", false, at(seconds(1))), "");
  EXPECT_EQ(view.feed("b", 2, 1, "all\n", false, at(seconds(1))), "[0-2] all\n");
}

TEST(OutputView, OneWorkerWaitsForNobody) {
  OutputView view({});
  view.begin(0, {0});
  EXPECT_EQ(view.feed("a", 0, 1, "hello\n", false, kAt), "[a 0] hello\n");
  EXPECT_EQ(view.next_deadline(), std::nullopt);
}

TEST(OutputView, ShowsOnlyTheLocalRanksThatAreWanted) {
  OutputView view({.local_ranks = RankSet::parse("1").value()});
  view.begin(0, {0, 1, 0, 1});
  EXPECT_EQ(view.feed("a", 0, 1, "x\n", false, kAt), "");
  EXPECT_EQ(view.feed("a", 1, 1, "x\n", false, kAt), "");
  EXPECT_EQ(view.feed("b", 3, 1, "x\n", false, kAt), "[1,3] x\n") << "both that are shown";
}

TEST(OutputView, LeavesToTheFilesWhatIsRedirectedAndNotTeed) {
  OutputView view({.redirects = StreamChoice::parse("0:3,1:2").value(),
                   .tee = StreamChoice::parse("0:2").value()});
  view.begin(0, {0, 1});
  EXPECT_EQ(view.feed("a", 0, 1, "x\n", false, kAt), "");
  view.feed("a", 0, 2, "x\n", false, kAt);
  EXPECT_EQ(view.feed("a", 1, 1, "x\n", false, kAt), "[0-1] x\n") << "both are shown in part";
  EXPECT_EQ(view.feed("a", 1, 2, "y\n", false, kAt), "");
  EXPECT_EQ(view.flush(), "");
}

TEST(OutputView, WaitsForNoRankThatIsRedirectedAsAWhole) {
  OutputView view({.redirects = StreamChoice::parse("1:3").value()});
  view.begin(0, {0, 1});
  EXPECT_EQ(view.feed("a", 0, 1, "x\n", false, kAt), "[a 0] x\n");
}

TEST(OutputView, PrefixesAsTheTemplateSays) {
  OutputView view({.prefix = LinePrefix::parse("${attempt}:${local_rank}|", "vit").value()});
  view.begin(0, {0, 1});
  EXPECT_EQ(view.feed("a", 1, 1, "x\ny", false, kAt), "");
  EXPECT_EQ(view.begin(7, {0, 1}), "0:1|x\n0:1|y\n") << "what the attempt before has left";
  view.feed("a", 1, 1, "x\n", false, kAt);
  EXPECT_EQ(view.feed("a", 0, 1, "x\n", false, kAt), "7:0-1|x\n");
}

std::string lines(int count) {
  std::string text;
  for (int line = 0; line < count; ++line) text += std::to_string(line) + "\n";
  return text;
}

TEST(OutputView, CountsWhatARankPrintsBeyondItsShare) {
  OutputView view({.fold = false, .lines_max = 2});
  view.begin(3, {0, 1});

  EXPECT_EQ(view.feed("a", 1, 1, lines(2000), false, kAt), "[a 1] 0\n[a 1] 1\n");
  EXPECT_EQ(view.feed("a", 0, 1, "x\n", false, kAt), "[a 0] x\n") << "another rank has its own";
  EXPECT_EQ(view.next_deadline(), at(seconds(1)));
  EXPECT_EQ(view.due(at(milliseconds(999))), "");
  EXPECT_EQ(view.due(at(seconds(1))),
            "[a 1] … 1,998 lines not shown (see attempts/003/ranks/0001)\n");
  EXPECT_EQ(view.next_deadline(), std::nullopt);
  EXPECT_EQ(view.feed("a", 1, 1, lines(3), false, at(seconds(1))), "[a 1] 0\n[a 1] 1\n");
  EXPECT_EQ(view.feed("a", 1, 1, lines(1), false, at(seconds(2))),
            "[a 1] … 1 lines not shown (see attempts/003/ranks/0001)\n[a 1] 0\n")
      << "the next line comes after the count";
}

TEST(OutputView, TheCountsOfSeveralRanksAreDueEachInItsTime) {
  OutputView view({.fold = false, .lines_max = 2});
  for (const int rank : {2, 0, 1})
    view.feed("a", rank, 1, lines(3), false, at(milliseconds(100 * rank)));
  const auto told = [](int rank) {
    return fmt::format("[a {0}] … 1 lines not shown (see attempts/000/ranks/{0:04})\n", rank);
  };
  EXPECT_EQ(view.next_deadline(), at(seconds(1)));
  EXPECT_EQ(view.due(at(milliseconds(1100))), told(0) + told(1));
  EXPECT_EQ(view.next_deadline(), at(milliseconds(1200)));
  view.feed("b", 2, 1, "x\n", false, at(milliseconds(1150)));
  EXPECT_EQ(view.next_deadline(), std::nullopt) << "another worker has the rank";
}

/// The launcher asks after each piece of output.
TEST(OutputView, TheNextDeadlineCostsNothingForRanksThatAreShownWhole) {
  constexpr int kRanks = 50'000;
  OutputView view({.fold = false, .lines_max = 10});
  for (int rank = 0; rank < kRanks; ++rank) view.feed("a", rank, 1, "", false, kAt);
  view.feed("a", 7, 1, lines(11), false, kAt);

  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int asked = 0;
  for (; asked < kRanks && std::chrono::steady_clock::now() < limit; ++asked)
    ASSERT_EQ(view.next_deadline(), at(seconds(1)));
  EXPECT_EQ(asked, kRanks);
}

TEST(OutputView, ALongLineCostsAsMuchAsSeveral) {
  OutputView view({.fold = false, .lines_max = 4});
  const std::string line(3000, 'x');
  EXPECT_EQ(view.feed("a", 0, 1, line + "\n" + line + "\n" + line + "\n", false, kAt),
            "[a 0] " + line + "\n[a 0] " + line + "\n");
}

TEST(OutputView, CountsWhatAllRanksPrintBeyondTheRunsShare) {
  OutputView view({.fold = false, .lines_max = 1});
  std::string shown;
  for (int rank = 0; rank < 20; ++rank) shown += view.feed("a", rank, 1, "x\n", false, kAt);

  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 8);
  EXPECT_EQ(view.close(), "[all] … 12 lines not shown (see attempts/000/ranks)\n");
}

TEST(OutputView, ALineOfTwoRanksThatIsNotShownIsTwoLines) {
  OutputView view({.lines_max = 1});
  view.begin(0, std::vector<std::int32_t>(20));
  std::string shown;
  for (int rank = 0; rank < 20; ++rank)
    shown += view.feed("a", rank, 1, std::to_string(rank / 2) + "\n", false, kAt);
  shown += view.due(at(milliseconds(100)));

  EXPECT_TRUE(shown.ends_with("[14-15] 7\n")) << shown;
  EXPECT_EQ(view.next_deadline(), at(milliseconds(1100)));
  EXPECT_EQ(view.due(at(milliseconds(1100))),
            "[all] … 4 lines not shown (see attempts/000/ranks)\n");
  EXPECT_EQ(view.next_deadline(), std::nullopt);
}

/// The lines shown and those counted are all lines.
TEST(OutputView, CountsEachLineThatItDoesNotShow) {
  OutputView view({.lines_max = 50});
  view.begin(0, {0, 1, 2});
  std::string out;
  int printed = 0;
  for (int step = 0; step < 3000; ++step) {
    const int count = step % 7;
    printed += count;
    out += view.feed("a", step % 3, 1 + step % 2, lines(count), false, at(milliseconds(step * 3)));
    if (const auto due = view.next_deadline(); due && *due <= at(milliseconds(step * 3)))
      out += view.due(at(milliseconds(step * 3)));
  }
  out += view.close();

  int shown = 0;
  for (std::size_t begin = 0; begin < out.size();) {
    const std::string line = out.substr(begin, out.find('\n', begin) - begin);
    begin += line.size() + 1;
    const std::size_t dropped = line.find("… ");
    if (dropped != line.npos) {
      shown += std::stoi(line.substr(dropped + std::string("… ").size()));
      continue;
    }
    const std::string ranks = line.substr(1, line.find(']') - 1);  // "0-2", "0,2" or "a 0"
    shown += ranks == "0-2" ? 3 : ranks.find_first_of("-,") != ranks.npos ? 2 : 1;
  }
  EXPECT_EQ(shown, printed);
}

TEST(OutputView, FlushShowsWhatIsHeldButBreaksNoLine) {
  OutputView view({});
  view.begin(0, {0, 1});
  view.feed("a", 0, 1, "x\nhalf", false, kAt);
  EXPECT_EQ(view.flush(), "[a 0] x\n");
  EXPECT_EQ(view.close(), "[a 0] half\n");
}

}  // namespace
}  // namespace train
