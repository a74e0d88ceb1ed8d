#include "launcher/report/output_lines.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(OutputLines, MakesWholeLinesOfPieces) {
  OutputLines lines;

  EXPECT_EQ(lines.feed("a", 0, 1, "he", false), "");
  EXPECT_EQ(lines.feed("b", 3, 1, "other\n", false), "[b 3] other\n");
  EXPECT_EQ(lines.feed("a", 0, 2, "err\n", false), "[a 0] err\n");
  EXPECT_EQ(lines.feed("a", 0, 1, "llo\n\nrest", false), "[a 0] hello\n[a 0] \n");
  EXPECT_EQ(lines.feed("a", 0, 1, "", true), "[a 0] rest\n");
  EXPECT_EQ(lines.feed("a", 0, 1, "", true), "");
}

TEST(OutputLines, ShowsTheLastStateOfAProgressBar) {
  OutputLines lines;

  EXPECT_EQ(lines.feed("a", 0, 2, " 10%\r 50%\r", false), "");
  EXPECT_EQ(lines.feed("a", 0, 2, "100%\r\n\x1b[2Jdone\n", false), "[a 0] 100%\n[a 0] done\n");
}

TEST(OutputLines, ShowsNothingOfALongProgressBarBeforeItEnds) {
  OutputLines lines;
  const std::string state = std::string(100, '#') + "\r";
  for (std::size_t shown = 0; shown < 3 * StreamLines::kLineBytesMax; shown += state.size())
    ASSERT_EQ(lines.feed("a", 0, 2, state, false), "");

  EXPECT_EQ(lines.feed("a", 0, 2, "done\n", false), "[a 0] done\n");
}

TEST(OutputLines, SplitsLongLinesBetweenCharacters) {
  OutputLines lines;
  const std::string before(StreamLines::kLineBytesMax - 1, 'x');

  EXPECT_EQ(lines.feed("a", 0, 1, before + "\u00e9y\n", false),
            "[a 0] " + before + "\n[a 0] \u00e9y\n");
}

}  // namespace
}  // namespace train
