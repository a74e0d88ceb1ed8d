#include "launcher/report/output_lines.h"

#include <gtest/gtest.h>

#include <vector>

namespace train {
namespace {

std::string fed(StreamLines& lines, std::string_view data, bool end = false) {
  std::string out;
  lines.feed(data, end, [&](std::string_view line, std::size_t) {
    out += line;
    out += '\n';
  });
  return out;
}

TEST(StreamLines, ShowsTheLastStateOfAProgressBar) {
  StreamLines lines;

  EXPECT_EQ(fed(lines, " 10%\r 50%\r"), "");
  EXPECT_EQ(fed(lines, "100%\r\n\x1b[2Jdone\n"), "100%\ndone\n");
}

TEST(StreamLines, ShowsNothingOfALongProgressBarBeforeItEnds) {
  StreamLines lines;
  const std::string state = std::string(100, '#') + "\r";
  for (std::size_t shown = 0; shown < 3 * StreamLines::kLineBytesMax; shown += state.size())
    ASSERT_EQ(fed(lines, state), "");

  EXPECT_EQ(fed(lines, "done\n"), "done\n");
}

TEST(StreamLines, SplitsLongLinesBetweenCharacters) {
  StreamLines lines;
  const std::string before(StreamLines::kLineBytesMax - 1, 'x');

  EXPECT_EQ(fed(lines, before + "\u00e9y\n"), before + "\n\u00e9y\n");
}

TEST(StreamLines, SaysWhereEachLineEnds) {
  StreamLines lines;
  std::vector<std::size_t> ends;
  const auto note = [&](std::string_view, std::size_t taken) { ends.push_back(taken); };
  lines.feed("ab\n\ncd", false, note);
  lines.feed("e\nf", false, note);
  lines.feed("", true, note);

  EXPECT_EQ(ends, (std::vector<std::size_t>{3, 4, 2, 0}));
}

}  // namespace
}  // namespace train
