#include "daemon/supervisor/workers/core_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "lib/base/text_file.h"

namespace train {
namespace {

const CoreDump kDump{.pid = 1234, .signal = 11, .folder = "/home/a [b]/job"};

std::string glob_of(std::string_view pattern, bool uses_pid = false) {
  return core_file_glob(pattern, uses_pid, kDump);
}

TEST(CoreFile, IsWhereTheKernelsPatternSays) {
  EXPECT_EQ(glob_of("core\n"), "/home/a \\[b\\]/job/core");
  EXPECT_EQ(glob_of("core\n", true), "/home/a \\[b\\]/job/core.1234");
  EXPECT_EQ(glob_of("core.%p", true), "/home/a \\[b\\]/job/core.1234");
  EXPECT_EQ(glob_of("/cores/%e-%p-%s-%t.core"), "/cores/*-1234-11-*.core");
  EXPECT_EQ(glob_of("/c/%u%%%g"), fmt::format("/c/{}%{}", ::geteuid(), ::getegid()));
  EXPECT_EQ(glob_of("/c/a*%"), "/c/a\\*");
}

class CoreFileOnDisk : public testing::Test {
 protected:
  CoreFileOnDisk() {
    char name[] = "/tmp/core-XXXXXX";
    folder_ = ::mkdtemp(name);
    dump_ = {
        .pid = 1234, .signal = 11, .folder = folder_, .ended = std::chrono::system_clock::now()};
    const bool uses_pid = read_text("/proc/sys/kernel/core_uses_pid").starts_with('1');
    path_ = core_file_glob(read_text("/proc/sys/kernel/core_pattern"), uses_pid, dump_);
  }
  ~CoreFileOnDisk() override { std::filesystem::remove_all(folder_); }
  void SetUp() override {
    if (!path_.starts_with(folder_) || path_.find_first_of("*?") != std::string::npos)
      GTEST_SKIP() << "this machine's core files have names that the test cannot make";
  }

  std::string folder_, path_;
  CoreDump dump_;
};

TEST_F(CoreFileOnDisk, IsTheOneThatWasWrittenAsTheWorkerEnded) {
  EXPECT_EQ(find_core_dump(dump_), "");
  std::ofstream(path_) << "memory";
  EXPECT_EQ(find_core_dump(dump_), path_);

  const auto written = std::filesystem::last_write_time(path_);
  std::filesystem::last_write_time(path_, written - std::chrono::hours(1));
  EXPECT_EQ(find_core_dump(dump_), "") << "an old one";
  std::filesystem::last_write_time(path_, written + std::chrono::hours(1));
  EXPECT_EQ(find_core_dump(dump_), "") << "one of a later crash";
}

TEST_F(CoreFileOnDisk, IsAFileOfOurOwnUser) {
  std::filesystem::create_directory(path_);
  EXPECT_EQ(find_core_dump(dump_), "");
  std::filesystem::remove(path_);
  std::ofstream(folder_ + "/elsewhere") << "memory";
  std::filesystem::create_symlink(folder_ + "/elsewhere", path_);
  EXPECT_EQ(find_core_dump(dump_), "");
  std::filesystem::remove(path_);
  std::ofstream(path_) << "memory";
  if (::chown(path_.c_str(), 65534, 65534) != 0)
    GTEST_SKIP() << "needs root: a file of another user";
  EXPECT_EQ(find_core_dump(dump_), "");
}

TEST(CoreFile, IsNoneWhereAProgramTakesTheDump) {
  EXPECT_EQ(glob_of("|/usr/share/apport/apport %p"), "");
}

}  // namespace
}  // namespace train
