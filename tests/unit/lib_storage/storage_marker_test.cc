#include "lib/storage/storage_marker.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/store.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;
using Paths = std::vector<std::string>;

constexpr const char* kRun = "/shared/vit";
constexpr const char* kSameMount =
    "is the same file system mounted there? run_config.storage_path must be a folder that all "
    "nodes share";
const StorageCheck kCheck{
    .run_dir = kRun, .generation = Generation{2}, .mark = "vit-1 abc", .prober = "node-b-7"};

class StorageMarker : public testing::Test {
 protected:
  StorageMarker() { disk.put("/shared/vit/events.jsonl", "x"); }
  Result<Unit> leave(const std::string& text = kCheck.mark) {
    return leave_storage_marker(disk, kRun, kCheck.generation, text);
  }
  MemoryFileSystem disk;
};

TEST_F(StorageMarker, IsFoundAndNothingElseIsLeft) {
  disk.put("/shared/vit/.probe-1", "of an earlier launcher");
  disk.put("/shared/vit/.probe-1-node-b-5", "of a node that died");

  ASSERT_TRUE(leave());
  const auto checked = check_storage(disk, kCheck);

  EXPECT_TRUE(checked) << checked.error().describe();
  EXPECT_EQ(disk.tree(kRun), (Paths{"/shared/vit/.probe-2", "/shared/vit/events.jsonl"}));
  remove_storage_markers(disk, kRun);
  EXPECT_EQ(disk.tree(kRun), (Paths{"/shared/vit/events.jsonl"}));
  remove_storage_markers(disk, "/not/there");
}

TEST_F(StorageMarker, IsMissingInALocalFolderOfTheSameName) {
  EXPECT_EQ(check_storage(disk, kCheck).error(),
            (Error{Errc::InvalidArgument,
                   "'/shared/vit' is not the launcher's storage: it exists, but lacks this "
                   "launcher's marker",
                   kSameMount}));
}

TEST_F(StorageMarker, IsMissingWithItsFolder) {
  MemoryFileSystem other;
  EXPECT_EQ(check_storage(other, kCheck).error(),
            (Error{Errc::InvalidArgument,
                   "'/shared/vit' is not the launcher's storage: no such folder", kSameMount}));
}

TEST_F(StorageMarker, OfAnotherLauncherIsNotOurs) {
  ASSERT_TRUE(leave("vit-1 other"));

  EXPECT_EQ(check_storage(disk, kCheck).error().message,
            "'/shared/vit' is not the launcher's storage: it has another launcher's marker");
}

TEST_F(StorageMarker, IsNoUseWhereNothingMayBeWritten) {
  ASSERT_TRUE(leave());
  disk.fail_at(1, EROFS);

  EXPECT_EQ(check_storage(disk, kCheck).error(),
            (Error{Errc::InvalidArgument,
                   "the run's storage cannot be written: creating "
                   "'/shared/vit/.probe-2-node-b-7': Read-only file system",
                   "the user that workers run as must be able to write there"}));
}

TEST_F(StorageMarker, IsNotEnoughOnAFullDisk) {
  ASSERT_TRUE(leave());
  disk.set_space(kFreeBytesMin - 1);

  EXPECT_EQ(check_storage(disk, kCheck).error(),
            (Error{Errc::NoSpace,
                   "the run's storage is full: 1048575 bytes are free in '/shared/vit', at least "
                   "1048576 are required",
                   "free some space there"}));
  disk.set_space(3);  // not even for a file
  EXPECT_EQ(check_storage(disk, kCheck).error().code, Errc::NoSpace);
  EXPECT_EQ(disk.tree(kRun), (Paths{"/shared/vit/.probe-2", "/shared/vit/events.jsonl"}));
}

}  // namespace
}  // namespace train
