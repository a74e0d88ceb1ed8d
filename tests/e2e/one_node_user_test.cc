// A user without privileges, on a system that has made no folder for them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kUser = 64123;  // of no account

class PlainUser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
    for (const char* folder : {"", "rt", "home", "runs", "tmp"})
      ASSERT_EQ(::chown(cluster.path(folder).c_str(), kUser, kUser), 0);
    if (cluster.train_run({"--version"}, as_user()).wait() != 0)
      GTEST_SKIP() << "another user cannot start what was built in " << built("");
  }
  void TearDown() override { fs::remove_all(default_folder()); }

  static StartOptions as_user() {
    StartOptions options;
    const std::string id = std::to_string(kUser);
    options.prefix = {"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"};
    options.env["XDG_RUNTIME_DIR"] = "";
    return options;
  }
  static std::string default_folder() { return fmt::format("/tmp/trainrun-{}", kUser); }
  /// Return the folders of private daemons.
  static std::vector<std::string> folders() {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator("/tmp")) {
      if (entry.path().string().starts_with(default_folder() + "-")) found.push_back(entry.path());
    }
    return found;
  }
  Cluster cluster;
};

TEST_F(PlainUser, ARunLeavesNothingBehind) {
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [" + program("plain_worker") +
                              ", family, print, trained]\n"
                              "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}")},
      as_user());

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "0] trained") && contains(run.out(), "1] trained")) << run.out();
  EXPECT_TRUE(wait_until([&] { return cluster.processes().empty() && folders().empty(); }));
}

TEST_F(PlainUser, AStandingTraindIsFoundByItsDefaultFolder) {
  Process& traind = cluster.traind({"--listen", "unix:" + cluster.path("tmp/t/traind.sock"),
                                    "--spool-dir", cluster.path("tmp/spool")},
                                   as_user());
  ASSERT_TRUE(wait_until([&] { return contains(traind.err(), "msg=listening"); })) << traind.err();
  struct stat folder {};
  ASSERT_EQ(::lstat(default_folder().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_uid, kUser);
  EXPECT_EQ(folder.st_mode & 07777, 0700u);

  Process& drain = cluster.traind({"drain"}, as_user());

  EXPECT_EQ(drain.wait(), 0) << drain.err();
  EXPECT_EQ(traind.wait(), 0) << traind.err();
}

}  // namespace
}  // namespace train::e2e
