#include "launcher/cluster/reports/output_log.h"

#include <filesystem>
#include <map>

#include "launcher/cluster/reports/log_piece.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

constexpr Attempt kAttempt{2};
constexpr Rank kRank{3};

TEST(OutputLog, WritesEachByteOnceWhenPiecesComeAgain) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, {});
  std::string_view fresh;

  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 0, "hello ", &fresh), 6u);
  EXPECT_EQ(fresh, "hello ");
  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 3, "lo world", &fresh), 11u);
  EXPECT_EQ(fresh, "world");
  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 0, "hello", &fresh), 11u);
  EXPECT_EQ(fresh, "");

  EXPECT_EQ(text_of(folder.stdout_log(kAttempt, kRank)), "hello world");
}

TEST(OutputLog, TheNextLaunchersLogGoesOnWhereThisOneStopped) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  std::string_view fresh;
  {
    OutputLog log(folder, {});
    EXPECT_EQ(*log.append(kAttempt, kRank, 1, 0, "one\ntwo\n", &fresh), 8u);
  }
  OutputLog log(folder, {});

  // The supervisor resends what was not acknowledged.
  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 4, "two\nthree\n", &fresh), 14u);

  EXPECT_EQ(fresh, "three\n");
  EXPECT_EQ(text_of(folder.stdout_log(kAttempt, kRank)), "one\ntwo\nthree\n");
}

TEST(OutputLog, AfterARotationTheNextLaunchersLogTakesWhatTheSupervisorSends) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  std::string_view fresh;
  std::uint64_t offset = 0;
  {
    OutputLog log(folder, {.stream_bytes = 30});  // rotates at 10 bytes
    for (const char* piece : {"aaaaaaaa", "bbbbbbbb", "cccc"})
      offset = *log.append(kAttempt, kRank, 1, offset, piece, &fresh);
  }
  OutputLog log(folder, {.stream_bytes = 30});

  EXPECT_EQ(*log.append(kAttempt, kRank, 1, offset, "dddd", &fresh), 24u);

  EXPECT_EQ(text_of(folder.stdout_log(kAttempt, kRank) + ".head"), "aaaaaaaa");
  EXPECT_EQ(text_of(folder.stdout_log(kAttempt, kRank)), piece_header(16) + "ccccdddd");
}

TEST(OutputLog, SaysHowMuchIsLost) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, {});
  std::string_view fresh;

  EXPECT_EQ(*log.append(kAttempt, kRank, 2, 0, "a", &fresh), 1u);
  EXPECT_EQ(*log.append(kAttempt, kRank, 2, 1001, "b", &fresh), 1002u);

  const std::string note = "\n[trainrun: 1000 bytes of output are lost here]\n";
  EXPECT_EQ(text_of(folder.stderr_log(kAttempt, kRank) + ".head"), "a");
  EXPECT_EQ(text_of(folder.stderr_log(kAttempt, kRank)), piece_header(1) + note + "b");

  EXPECT_EQ(*log.append(kAttempt, kRank, 2, 1004, "c", &fresh), 1005u);

  const std::string next = "\n[trainrun: 2 bytes of output are lost here]\n";
  EXPECT_EQ(text_of(folder.stderr_log(kAttempt, kRank)), piece_header(1) + note + "b" + next + "c");
}

TEST(OutputLog, TheNextLauncherLosesAndRepeatsNothingBehindALoss) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  std::string_view fresh;
  {
    OutputLog log(folder, {});
    (void)log.append(kAttempt, kRank, 1, 7, "a", &fresh);
  }
  OutputLog log(folder, {});

  EXPECT_EQ(*log.append(kAttempt, kRank, 1, 8, "b", &fresh), 9u);

  EXPECT_EQ(fresh, "b");
  const std::string note = "\n[trainrun: 7 bytes of output are lost here]\n";
  EXPECT_EQ(text_of(folder.stdout_log(kAttempt, kRank)), piece_header(0) + note + "ab");
}

TEST(OutputLog, KeepsTheBeginningAndTheNewestWithinItsLimit) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, {.stream_bytes = 30});  // rotates at 10 bytes
  std::string_view fresh;
  std::uint64_t offset = 0;
  for (const char* piece : {"aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"})
    offset = *log.append(kAttempt, kRank, 1, offset, piece, &fresh);

  const std::string path = folder.stdout_log(kAttempt, kRank);
  EXPECT_EQ(text_of(path + ".head"), "aaaaaaaa");
  EXPECT_EQ(text_of(path + ".1"), piece_header(16) + "cccccccc");
  EXPECT_EQ(text_of(path), piece_header(24) + "dddddddd");
}

constexpr std::string_view kRemoved =
    "[trainrun: removed, as the run's output had reached its limit]\n";

TEST(OutputLog, RemovesWhatIsOldestWhenTheRunHasReachedItsLimit) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, {.stream_bytes = 3000, .run_bytes = 3000});
  std::string_view fresh;
  const auto print = [&](Attempt attempt, Rank rank, std::uint64_t offset) {
    return *log.append(attempt, rank, 1, offset, std::string(800, 'x'), &fresh);
  };
  print(Attempt{0}, Rank{0}, 0);
  log.close(Attempt{0});
  print(Attempt{1}, Rank{0}, 0);
  log.close(Attempt{1});
  std::uint64_t offset = print(Attempt{2}, Rank{0}, 0);
  EXPECT_EQ(log.removed_bytes(), 0u);

  offset = print(Attempt{2}, Rank{0}, offset);

  EXPECT_EQ(text_of(folder.stdout_log(Attempt{0}, Rank{0})), kRemoved);
  EXPECT_EQ(text_of(folder.stdout_log(Attempt{1}, Rank{0})).size(), 800u);
  EXPECT_EQ(log.removed_bytes(), 800u);

  for (int i = 0; i < 4; ++i) offset = print(Attempt{2}, Rank{0}, offset);
  EXPECT_EQ(text_of(folder.stdout_log(Attempt{1}, Rank{0})), kRemoved);
  EXPECT_EQ(text_of(folder.stdout_log(Attempt{2}, Rank{0})).size(),
            piece_header(4000).size() + 800u);
}

TEST(OutputLog, WhatARotationDropsCountsNoMore) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, {.stream_bytes = 3000, .run_bytes = 4000});  // rotates at 1000 bytes
  std::string_view fresh;
  log.append(Attempt{0}, kRank, 1, 0, std::string(900, 'a'), &fresh).value();
  log.close(Attempt{0});

  std::uint64_t offset = 0;
  for (int i = 0; i < 30; ++i)
    offset = log.append(Attempt{1}, kRank, 1, offset, std::string(500, 'x'), &fresh).value();

  EXPECT_EQ(log.removed_bytes(), 0u) << "3900 bytes are held, and not 15900";
  EXPECT_EQ(text_of(folder.stdout_log(Attempt{0}, kRank)).size(), 900u);
}

TEST(OutputLog, CountsWhatAnEarlierLauncherLeft) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  std::string_view fresh;
  {
    OutputLog earlier(folder, {});
    ASSERT_TRUE(earlier.append(Attempt{0}, kRank, 1, 0, std::string(900, 'x'), &fresh));
  }
  OutputLog log(folder, {.stream_bytes = 3000, .run_bytes = 1000});

  ASSERT_TRUE(log.append(Attempt{1}, kRank, 1, 0, std::string(200, 'y'), &fresh));

  EXPECT_EQ(text_of(folder.stdout_log(Attempt{0}, kRank)), kRemoved);
  EXPECT_EQ(text_of(folder.stdout_log(Attempt{1}, kRank)).size(), 200u);
}

TEST(OutputLog, StreamsShareTheLimitOfTheRun) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  OutputLog log(folder, {.stream_bytes = 30000, .run_bytes = 30000});
  std::string_view fresh;
  std::map<std::int32_t, std::uint64_t> offsets;
  for (int round = 0; round < 100; ++round) {
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      const auto end =
          log.append(kAttempt, Rank{rank}, 1, offsets[rank], std::string(500, 'x'), &fresh);
      ASSERT_TRUE(end);
      offsets[rank] = *end;
    }
  }

  std::uintmax_t held = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(temp.path()))
    if (entry.is_regular_file()) held += entry.file_size();
  EXPECT_LE(held, 30000u);
  for (std::int32_t rank = 0; rank < 4; ++rank)
    EXPECT_GE(text_of(folder.stdout_log(kAttempt, Rank{rank})).size(), 500u) << rank;
}

}  // namespace
}  // namespace train
