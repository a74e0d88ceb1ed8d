#include "lib/base/host.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace train {
namespace {

TEST(HomeFolder, IsTheVariablesOrTheSystemsAndNeverEverybodys) {
  const char* set = std::getenv("HOME");
  const std::string before = set != nullptr ? set : "";
  ::setenv("HOME", "/home/ada", 1);
  EXPECT_EQ(home_folder(), "/home/ada");
  const passwd* known = ::getpwuid(::geteuid());
  const std::string systems = known != nullptr ? known->pw_dir : "/nonexistent";
  ::setenv("HOME", "", 1);
  EXPECT_EQ(home_folder(), systems);
  ::unsetenv("HOME");
  EXPECT_EQ(home_folder(), systems);
  if (set != nullptr) ::setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace train
