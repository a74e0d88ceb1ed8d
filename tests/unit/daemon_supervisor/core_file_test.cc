#include "daemon/supervisor/workers/core_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(CoreFile, IsNoneWhereAProgramTakesTheDump) {
  EXPECT_EQ(glob_of("|/usr/share/apport/apport %p"), "");
}

}  // namespace
}  // namespace train
