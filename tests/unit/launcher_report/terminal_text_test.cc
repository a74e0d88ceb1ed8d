#include "launcher/report/terminal_text.h"

#include <gtest/gtest.h>

#include "launcher/report/output_lines.h"

namespace train {
namespace {

TEST(TerminalText, TakesOutWhatSteersATerminal) {
  EXPECT_EQ(terminal_safe("plain \u00e9 \u4f60\ttab"), "plain \u00e9 \u4f60\ttab");
  EXPECT_EQ(terminal_safe("\x1b[31mred\x1b[0m \x1b]0;title\x07more \x1b]8;;http://x\x1b\\link"),
            "red more link");
  EXPECT_EQ(terminal_safe("a\rb\x08"
                          "c\x07"),
            "a^Mb^Hc^G");
  EXPECT_EQ(terminal_safe("x\x7f\u009b31m\u202ey"), "x^?\\u009b31m\\u202ey");
  EXPECT_EQ(terminal_safe("cut \x1b["), "cut ");
  EXPECT_EQ(terminal_safe("cut \x1b"), "cut ");
  EXPECT_EQ(terminal_safe("\x1b\xff"), "\xEF\xBF\xBD");
}

TEST(TerminalText, CutsToColumns) {
  EXPECT_EQ(columns_of("a\u4f60e\u0301"), 4);
  EXPECT_EQ(cut_to_columns("0123456789", 10), "0123456789");
  EXPECT_EQ(cut_to_columns("0123456789x", 10), "0123456...");
  EXPECT_EQ(cut_to_columns("\u4f60\u4f60\u4f60\u4f60", 7), "\u4f60\u4f60...");
  EXPECT_EQ(cut_to_columns("0123", 2), "..");
}

TEST(OutputLines, MakesWholeLinesOfPieces) {
  OutputLines lines(/*for_terminal=*/false);

  EXPECT_EQ(lines.feed("a", 0, 1, "he", false), "");
  EXPECT_EQ(lines.feed("b", 3, 1, "other\n", false), "[b 3] other\n");
  EXPECT_EQ(lines.feed("a", 0, 2, "err\n", false), "[a 0] err\n");
  EXPECT_EQ(lines.feed("a", 0, 1, "llo\n\nrest", false), "[a 0] hello\n[a 0] \n");
  EXPECT_EQ(lines.feed("a", 0, 1, "", true), "[a 0] rest\n");
  EXPECT_EQ(lines.feed("a", 0, 1, "", true), "");
}

TEST(OutputLines, ShowsTheLastStateOfAProgressBar) {
  OutputLines lines(/*for_terminal=*/true);

  EXPECT_EQ(lines.feed("a", 0, 2, " 10%\r 50%\r", false), "");
  EXPECT_EQ(lines.feed("a", 0, 2, "100%\r\n\x1b[2Jdone\n", false), "[a 0] 100%\n[a 0] done\n");
}

TEST(OutputLines, SplitsLongLinesBetweenCharacters) {
  OutputLines lines(/*for_terminal=*/false);
  const std::string before(OutputLines::kLineBytesMax - 1, 'x');

  EXPECT_EQ(lines.feed("a", 0, 1, before + "\u00e9y\n", false),
            "[a 0] " + before + "\n[a 0] \u00e9y\n");
}

}  // namespace
}  // namespace train
