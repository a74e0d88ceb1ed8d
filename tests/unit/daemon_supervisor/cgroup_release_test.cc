// A cgroup v2 is a folder with files here; a pipe takes what is written into
// cgroup.subtree_control.
#include "daemon/supervisor/limits/cgroup_release.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace train {
namespace {

class CgroupRelease : public testing::Test {
 protected:
  CgroupRelease() {
    std::filesystem::create_directories(runtime_);
    hand_on(group_, "cpu memory io pids");
    hand_on(group_ + "/trainrun-a", "memory pids");
    hand_on(group_ + "/trainrun-a/rank-0000", "");
    hand_on(group_ + "/.control", "");
  }
  ~CgroupRelease() override { std::filesystem::remove_all(folder_); }

  static std::string new_folder() {
    char name[] = "/tmp/release-XXXXXX";
    return ::mkdtemp(name);
  }
  static void hand_on(const std::string& group, const std::string& controllers) {
    std::filesystem::create_directories(group);
    std::ofstream(group + "/cgroup.subtree_control") << controllers << "\n";
  }
  static std::string control(const std::string& group) {
    std::ostringstream text;
    text << std::ifstream(group + "/cgroup.subtree_control").rdbuf();
    return text.str();
  }
  /// Return "released", "nothing", or the error.
  std::string release_from(const std::string& own) const {
    CgroupLocations locations;
    locations.v2 = own;
    const auto released = release_cgroup(runtime_, locations);
    if (!released) return released.error().message;
    return *released ? "released" : "nothing";
  }
  /// Return whether the controllers were taken off: a plain file keeps the last word, "-pids".
  bool released() const {
    return control(group_).starts_with("-pids") &&
           control(group_ + "/trainrun-a").starts_with("-pids");
  }

  std::string folder_ = new_folder(), runtime_ = folder_ + "/runtime",
              group_ = folder_ + "/traind.service";
};

TEST_F(CgroupRelease, TakesTheControllersOffTheGroupThatTraindHadToLeave) {
  ASSERT_TRUE(note_own_cgroup(runtime_, group_));

  EXPECT_EQ(release_from(group_ + "/.control"), "released");

  EXPECT_TRUE(released());
  EXPECT_EQ(control(group_ + "/trainrun-a/rank-0000"), "\n");
}

TEST_F(CgroupRelease, MayRunInTheGroupItself) {
  ASSERT_TRUE(note_own_cgroup(runtime_, group_));
  EXPECT_EQ(release_from(group_), "released");
  EXPECT_TRUE(released());
}

TEST_F(CgroupRelease, DoesNothingWhereTraindBeganBelow) {
  ASSERT_TRUE(note_own_cgroup(runtime_, group_));
  ASSERT_TRUE(note_own_cgroup(runtime_, ""));

  EXPECT_EQ(release_from(group_ + "/.control"), "nothing");

  EXPECT_FALSE(released());
}

TEST_F(CgroupRelease, LeavesOtherGroupsAlone) {
  ASSERT_TRUE(note_own_cgroup(runtime_, group_));
  for (const std::string& own : {folder_, group_ + "/trainrun-a", folder_ + "/other.service"})
    EXPECT_EQ(release_from(own), "nothing") << own;
  const auto without_v2 = release_cgroup(runtime_, {});
  EXPECT_TRUE(without_v2 && !*without_v2);
  EXPECT_FALSE(released());
}

TEST_F(CgroupRelease, SaysWhatCannotBeWritten) {
  ASSERT_TRUE(note_own_cgroup(runtime_, group_));
  const std::string path = group_ + "/trainrun-a/cgroup.subtree_control";
  std::filesystem::rename(path, folder_ + "/elsewhere");
  std::filesystem::create_symlink(folder_ + "/elsewhere", path);

  EXPECT_EQ(release_from(group_), "opening " + path + ": Too many levels of symbolic links");
}

}  // namespace
}  // namespace train
