// One frame must announce a rank's shard, however many files it has and whatever their names are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "daemon/supervisor/checkpoints/shard_result.h"
#include "daemon/supervisor/workers/worker_frames.h"
#include "lib/storage/staged_files.h"
#include "tests/fakes/store.h"

namespace train {
namespace {

constexpr std::size_t kListBytes = 2'621'440, kBesideAPath = 64;  // as the errors count it

/// Return a path of this many bytes, below folders with names of 100.
std::string path_of(std::size_t number, std::size_t bytes) {
  std::string path = fmt::format("{:05x}", number);
  while (path.size() + 101 <= bytes) path = std::string(100, 'd') + "/" + path;
  return std::string(bytes - path.size(), 'n') + path;
}

/// Return the result of staged_files() for a folder with this many files.
Result<std::vector<StagedFile>> shard_of_files(std::size_t count, std::size_t path_bytes) {
  fakes::MemoryFileSystem disk;
  for (std::size_t i = 0; i < count; ++i) disk.put("/staged/" + path_of(i, path_bytes), "");
  return staged_files(disk, "/staged");
}

TEST(ShardSizes, TheLargestShardThatIsTakenFitsIntoOneFrame) {
  for (const std::size_t path_bytes : {6u, 40u, 300u, 1000u}) {
    const std::size_t fits = kListBytes / (path_bytes + kBesideAPath);
    const auto files = shard_of_files(fits, path_bytes),
               refused = shard_of_files(fits + 1, path_bytes);
    ASSERT_TRUE(files) << files.error().describe();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::ResourceExhausted);
    EXPECT_NE(refused.error().message.find(fmt::format("has {} files, ", fits + 1)),
              std::string::npos)
        << refused.error().message;
    ShardWritten shard =
        shard_of(Rank{100'000}, {.checkpoint_seq = 1u << 30,
                                 .report_seq = 1ull << 40,
                                 .dir = "",
                                 .metadata_json = std::string(kWorkerTextBytesMax, 'm'),
                                 .metrics_json = "",
                                 .error = "",
                                 .error_code = ""});
    CheckpointShard stored{.rank = {}, .dir = std::string(200, 'f')};
    for (const StagedFile& file : *files)
      stored.files.push_back({.path = file.path, .bytes = ~std::uint64_t{0}, .digest = {}});
    set_outcome(shard, std::move(stored));

    EXPECT_LE(encode(shard, Attempt{3}).payload.size(), kFramePayloadBytesMax)
        << fits << " files, whose paths have " << path_bytes << " bytes";
  }
}

TEST(ShardResult, OfWhatCouldNotBeStoredIsWhy) {
  ShardWritten shard = shard_of(Rank{3}, {.checkpoint_seq = 7, .metadata_json = "{}"});

  set_outcome(shard, Error{Errc::NoSpace, "the disk is full", "free some"});

  EXPECT_EQ(shard.rank, Rank{3});
  EXPECT_EQ(shard.checkpoint_seq, 7u);
  EXPECT_EQ(shard.error, "the disk is full (free some)");
  EXPECT_TRUE(shard.no_space);
  EXPECT_TRUE(shard.files.empty());
}

}  // namespace
}  // namespace train
