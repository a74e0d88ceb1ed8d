#include "daemon/supervisor/output/output_spool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace train {
namespace {

OutputSpool make_spool(std::uint64_t bytes_max) {
  const std::string path = fmt::format("{}/spool-{}", testing::TempDir(), ::getpid());
  auto spool = OutputSpool::create(path, bytes_max);
  ::unlink(path.c_str());
  return std::move(*spool);
}

std::string read_all(const OutputSpool& spool, std::uint64_t& offset) {
  std::string all;
  for (std::string piece; !(piece = spool.read(offset, 3)).empty(); offset += piece.size())
    all += piece;
  return all;
}

TEST(OutputSpool, GivesBackWhatWasAppended) {
  OutputSpool spool = make_spool(100);
  spool.append("hello ");
  spool.append("world");
  std::uint64_t offset = 0;
  EXPECT_EQ(read_all(spool, offset), "hello world");
  EXPECT_EQ(offset, 11u);
}

TEST(OutputSpool, KeepsTheNewestWhenItIsFull) {
  OutputSpool spool = make_spool(10);
  spool.append("0123456789abcde");
  std::uint64_t offset = 0;
  EXPECT_EQ(read_all(spool, offset), "56789abcde");
  EXPECT_EQ(offset, 15u);
  EXPECT_EQ(spool.total(), 15u);
}

TEST(OutputSpool, GoesOnAtItsBeginningInTheMiddleOfAPiece) {
  OutputSpool spool = make_spool(10);
  spool.append("0123456");
  spool.append("789abcdef");
  std::uint64_t offset = 3;
  EXPECT_EQ(read_all(spool, offset), "6789abcdef");
  EXPECT_EQ(offset, 16u);
}

TEST(OutputSpool, SaysHowMuchAFullDiskDidNotTake) {
  auto spool = OutputSpool::create("/dev/full", 1000);
  ASSERT_TRUE(spool);
  for (int i = 0; i < 3; ++i) spool->append("0123456789");
  EXPECT_EQ(spool->total(), 0u);
  spool->finish();

  std::uint64_t offset = 0;
  EXPECT_EQ(read_all(*spool, offset),
            "\n[trainrun: 30 bytes of output are lost: /dev/full: No space left on device]\n");
  EXPECT_EQ(offset, spool->total());
}

TEST(OutputSpool, GoesOnWhenTheDiskHasRoomAgainAndSaysWhatIsMissing) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  OutputSpool spool = make_spool(1000);
  spool.append("first\n");
  const rlimit none{6, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  spool.append("lost one\n");
  spool.append("lost two\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old_handler);
  spool.append("last\n");
  spool.finish();

  std::uint64_t offset = 0;
  const std::string all = read_all(spool, offset);
  EXPECT_TRUE(all.starts_with("first\n\n[trainrun: 18 bytes of output are lost: ")) << all;
  EXPECT_TRUE(all.ends_with(": File too large]\nlast\n")) << all;
  EXPECT_EQ(offset, spool.total());
}

TEST(LastLines, KeepsTheLastTwentyAndAnOpenOne) {
  LastLines lines;
  for (int i = 0; i < 30; ++i) lines.append(0, fmt::format("line {}\n", i));
  lines.append(0, "half");
  const auto kept = lines.lines();
  ASSERT_EQ(kept.size(), LastLines::kLinesMax);
  EXPECT_EQ(kept.front(), "line 11");
  EXPECT_EQ(kept.back(), "half");
}

TEST(LastLines, LinesOfTheTwoStreamsAreNotMixed) {
  LastLines lines;
  lines.append(0, "loss ");
  lines.append(1, "Traceback\nValue");
  lines.append(0, "0.5\nepoch");
  lines.append(1, "Error\n");

  EXPECT_EQ(lines.lines(),
            (std::vector<std::string>{"Traceback", "loss 0.5", "ValueError", "epoch"}));
}

TEST(LastLines, CutsALongLine) {
  LastLines lines;
  lines.append(0, std::string(2000, 'x') + "\n");
  EXPECT_EQ(lines.lines(), std::vector<std::string>{std::string(LastLines::kLineBytesMax, 'x')});
}

}  // namespace
}  // namespace train
