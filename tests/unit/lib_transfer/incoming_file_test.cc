#include "lib/transfer/incoming_file.h"

#include <gtest/gtest.h>

#include "tests/fakes/store.h"

namespace train {
namespace {

CheckpointFile wanted(const std::string& path, const std::string& text) {
  return {path, text.size(), digest_of(text)};
}

std::string text_of(FileSystem& fs, const std::string& path) {
  const auto text = read_small_file(fs, path, 1 << 20);
  return text ? *text : text.error().message;
}

TEST(IncomingFile, HasItsNameOnlyOnceItIsWhole) {
  fakes::MemoryFileSystem disk;
  IncomingFile file(disk, "/in", wanted("sub/a", "hello"));

  ASSERT_TRUE(file.write("hel"));
  EXPECT_FALSE(disk.status("/in/sub/a"));
  EXPECT_FALSE(file.complete());
  ASSERT_TRUE(file.write("lo"));
  ASSERT_TRUE(file.complete());
  ASSERT_TRUE(file.finish(/*durable=*/true));

  EXPECT_EQ(text_of(disk, "/in/sub/a"), "hello");
  const auto entries = disk.list("/in/sub");
  ASSERT_TRUE(entries);
  EXPECT_EQ(entries->size(), 1u);
}

TEST(IncomingFile, WithOtherBytesIsCorruptAndNamed) {
  fakes::MemoryFileSystem disk;
  IncomingFile file(disk, "/in", wanted("a", "hello"));

  ASSERT_TRUE(file.write("hellO"));
  const auto finished = file.finish(/*durable=*/true);

  ASSERT_TRUE(finished.has_error());
  EXPECT_EQ(finished.error().code, Errc::Corrupt);
  EXPECT_NE(finished.error().message.find("'a' came with 5 bytes"), std::string::npos);
  EXPECT_FALSE(disk.status("/in/a"));
}

TEST(IncomingFile, ReplacesWhatAnEarlierOneLeft) {
  fakes::MemoryFileSystem disk;
  {
    IncomingFile cut_short(disk, "/in", wanted("a", "hello"));
    ASSERT_TRUE(cut_short.write("hel"));
  }
  IncomingFile file(disk, "/in", wanted("a", "hello"));

  ASSERT_TRUE(file.write("hello"));
  ASSERT_TRUE(file.finish(/*durable=*/true));

  EXPECT_EQ(text_of(disk, "/in/a"), "hello");
}

TEST(IncomingFile, AbandonedLeavesNothing) {
  fakes::MemoryFileSystem disk;
  IncomingFile file(disk, "/in", wanted("a", "hello"));
  ASSERT_TRUE(file.write("hel"));

  file.abandon();

  EXPECT_EQ(disk.list("/in")->size(), 0u);
}

// A finished file survives a power cut once its folder is synced. An unfinished one leaves no name
// that counts.
TEST(IncomingFile, IsSafeAfterFinish) {
  fakes::MemoryFileSystem disk;
  IncomingFile file(disk, "/in", wanted("a", "hello"));
  ASSERT_TRUE(file.write("hello"));
  ASSERT_TRUE(file.finish(/*durable=*/true));
  ASSERT_TRUE(disk.sync_folder("/in"));

  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto after = disk.after_power_cut(seed);
    EXPECT_TRUE(is_there(*after, "/in", wanted("a", "hello")));
  }
}

TEST(IsThere, WantsTheSameBytes) {
  fakes::MemoryFileSystem disk;
  IncomingFile file(disk, "/in", wanted("a", "hello"));
  ASSERT_TRUE(file.write("hello"));
  ASSERT_TRUE(file.finish(/*durable=*/true));

  EXPECT_TRUE(is_there(disk, "/in", wanted("a", "hello")));
  EXPECT_FALSE(is_there(disk, "/in", wanted("a", "hellO")));
  EXPECT_FALSE(is_there(disk, "/in", wanted("a", "hell")));
  EXPECT_FALSE(is_there(disk, "/in", wanted("b", "hello")));
}

}  // namespace
}  // namespace train
