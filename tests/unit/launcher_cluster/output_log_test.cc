#include "launcher/cluster/output_log.h"

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

constexpr Attempt kAttempt{2};
constexpr Rank kRank{3};

TEST(OutputLog, WritesEachByteOnceWhenPiecesComeAgain) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, 1 << 20);
  std::string_view fresh;

  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 0, "hello ", &fresh), 6u);
  EXPECT_EQ(fresh, "hello ");
  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 3, "lo world", &fresh), 11u);
  EXPECT_EQ(fresh, "world");
  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 0, "hello", &fresh), 11u);
  EXPECT_EQ(fresh, "");

  EXPECT_EQ(text_of(folder.stdout_log(kAttempt, kRank)), "hello world");
}

TEST(OutputLog, SaysHowMuchIsLost) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, 1 << 20);
  std::string_view fresh;

  EXPECT_EQ(*log.append(kAttempt, kRank, 2, 0, "a", &fresh), 1u);
  EXPECT_EQ(*log.append(kAttempt, kRank, 2, 1001, "b", &fresh), 1002u);

  EXPECT_EQ(text_of(folder.stderr_log(kAttempt, kRank)),
            "a\n[trainrun: 1000 bytes of output are lost here]\nb");
}

TEST(OutputLog, KeepsTheBeginningAndTheNewestWithinItsLimit) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, 30);  // pieces of 10 bytes
  std::string_view fresh;
  std::uint64_t offset = 0;
  for (const char* piece : {"aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"})
    offset = *log.append(kAttempt, kRank, 1, offset, piece, &fresh);

  const std::string path = folder.stdout_log(kAttempt, kRank);
  EXPECT_EQ(text_of(path + ".head"), "aaaaaaaa");
  EXPECT_EQ(text_of(path + ".1"), "cccccccc");
  EXPECT_EQ(text_of(path), "dddddddd");
}

}  // namespace
}  // namespace train
