#include "lib/base/terminal_text.h"

#include <gtest/gtest.h>

#include "lib/base/utf8.h"
#include "tests/unit/lib_base/hostile_texts.h"

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

TEST(TerminalText, LeavesNothingOfACorpusThatSteers) {
  const std::vector<std::string> texts = hostile_texts();
  ASSERT_GE(texts.size(), 120u);
  for (const std::string& text : texts) {
    const std::string safe = terminal_safe(text);
    EXPECT_TRUE(steers_nothing(safe)) << testing::PrintToString(text);
    EXPECT_EQ(terminal_safe(safe), safe) << testing::PrintToString(text);
    EXPECT_EQ(terminal_safe_lines(safe), safe) << testing::PrintToString(text);
    // No two texts join to one that controls the terminal, whatever text is beside this one.
    for (const std::string& other : {texts[2], texts[30], texts[34], texts[56]})
      EXPECT_TRUE(steers_nothing(terminal_safe(text + other)))
          << testing::PrintToString(text + other);
  }
}

TEST(TerminalText, KeepsLinesOfLines) {
  EXPECT_EQ(terminal_safe_lines("a\x1b[31m\nb\x1b\n\x1b]0;t\nc"), "a\nb\n\nc");
  EXPECT_EQ(terminal_safe_lines("\n\n"), "\n\n");
  EXPECT_EQ(terminal_safe_lines(""), "");
}

TEST(ShellWord, IsQuotedIfAShellWouldChangeIt) {
  EXPECT_EQ(shell_word("/runs/vit-1.2"), "/runs/vit-1.2");
  EXPECT_EQ(shell_word("s3://bucket/run"), "s3://bucket/run");
  EXPECT_EQ(shell_word("/my runs/$a;b"), "'/my runs/$a;b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("~/runs"), "'~/runs'");
}

TEST(Utf8Text, IsUtf8AndNoLongerThanAsked) {
  EXPECT_EQ(utf8_text("plain", 5), "plain");
  EXPECT_EQ(utf8_text("plains", 5), "pl...");
  EXPECT_EQ(utf8_text("\u00e9\u00e9\u00e9", 5), "\u00e9...");
  EXPECT_EQ(utf8_text("a\xff"
                      "b",
                      9),
            "a\uFFFDb");
  EXPECT_EQ(utf8_text("\xff\xff", 4), "...");
  EXPECT_EQ(utf8_text("abc", 2), "..");
  EXPECT_EQ(utf8_text("", 0), "");
  EXPECT_EQ(utf8_text("a\xff"), "a\uFFFD");
}

}  // namespace
}  // namespace train
