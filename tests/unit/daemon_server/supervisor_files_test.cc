#include "daemon/server/supervisor_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace train {
namespace {

TEST(SupervisorFiles, AreFoundAgainByTheirSockets) {
  char name[] = "/tmp/supervisor_files.XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const uid_t us = ::geteuid();
  const std::vector<SupervisorFiles> made{
      supervisor_files(folder, "/spool", {"r1", Attempt{0}}, us),
      supervisor_files(folder, "/spool", {"r1", Attempt{1}}, us),
      supervisor_files(folder, "/spool", {"r1", Attempt{0}}, us + 1),
      supervisor_files(folder, "/spool", {"r2", Attempt{0}}, us + 1)};
  for (const SupervisorFiles& one : made) std::ofstream(one.socket) << "";
  for (const char* other : {"traind.sock", "control.sock", "s-1.x.sock", "s-1.99999999999.sock",
                            "s-1.5x.sock", "s-1.sock.old"})
    std::ofstream(folder + "/" + other) << "";

  std::vector<SupervisorFiles> found = list_supervisor_files(folder, "/spool");

  EXPECT_EQ(found.size(), made.size());
  for (const SupervisorFiles& one : made)
    EXPECT_NE(std::find(found.begin(), found.end(), one), found.end()) << one.socket;
  std::filesystem::remove_all(folder);
}

TEST(SupervisorFiles, OfAnotherUserLieInThatUsersFolder) {
  const uid_t other = ::geteuid() + 7;
  const auto ours = supervisor_files("/rt", "/spool", {"r1", Attempt{0}}, ::geteuid());
  const auto theirs = supervisor_files("/rt", "/spool", {"r1", Attempt{0}}, other);

  EXPECT_TRUE(theirs.spool.starts_with("/spool/user-" + std::to_string(other) + "/"))
      << theirs.spool;
  EXPECT_FALSE(ours.spool.starts_with("/spool/user-")) << ours.spool;
  EXPECT_NE(theirs.socket, ours.socket);
}

}  // namespace
}  // namespace train
