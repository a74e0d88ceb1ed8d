// A cgroup v2 is a folder with files here. A pipe replaces the file that is written.
#include "daemon/supervisor/limits/delegated_cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "daemon/supervisor/limits/cgroup.h"
#include "lib/base/file_descriptor.h"

namespace train {
namespace {

class DelegatedCgroup : public testing::Test {
 protected:
  DelegatedCgroup() {
    char name[] = "/tmp/group-XXXXXX";
    locations_.v2 = ::mkdtemp(name);
  }
  ~DelegatedCgroup() override { std::filesystem::remove_all(*locations_.v2); }

  void has_controllers(const std::string& names) {
    std::ofstream(*locations_.v2 + "/cgroup.controllers") << names << "\n";
  }
  void make_control() {
    const std::string path = *locations_.v2 + "/cgroup.subtree_control";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    control_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  }
  std::string written() const {
    std::array<char, 256> text{};
    const ssize_t size = ::read(control_.get(), text.data(), text.size());
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

  CgroupLocations locations_;
  FileDescriptor control_;
};

TEST_F(DelegatedCgroup, HandsOnTheControllersThatWorkersNeed) {
  make_control();
  has_controllers("cpuset cpu io memory hugetlb pids rdma");

  EXPECT_EQ(take_over_own_cgroup(locations_).failure, "");

  EXPECT_EQ(written(), "+memory+pids+cpu");
}

TEST_F(DelegatedCgroup, HandsOnOnlyWhatIsThere) {
  make_control();
  has_controllers("cpuset pids");

  EXPECT_EQ(take_over_own_cgroup(locations_).failure, "");

  EXPECT_EQ(written(), "+pids");
}

TEST_F(DelegatedCgroup, SaysWhyNot) {
  has_controllers("memory");

  EXPECT_EQ(take_over_own_cgroup(locations_).failure,
            fmt::format("handing on the controllers of the cgroup {}: No such file or directory",
                        *locations_.v2));
}

TEST_F(DelegatedCgroup, SaysWhatTheKernelAnswers) {
  has_controllers("memory");
  std::filesystem::create_symlink("/dev/full", *locations_.v2 + "/cgroup.subtree_control");

  EXPECT_EQ(take_over_own_cgroup(locations_).failure,
            fmt::format("handing on the controllers of the cgroup {}: No space left on device",
                        *locations_.v2));
}

TEST_F(DelegatedCgroup, WithoutControllersThereIsNothingToDo) {
  EXPECT_EQ(take_over_own_cgroup(locations_).failure, "");
  EXPECT_EQ(take_over_own_cgroup({}).failure, "");
}

TEST(MissingLimits, AreThoseThatAWorkersGroupCannotHave) {
  const auto group = Cgroup::create(fmt::format("trainrun-test-{}", ::getpid()));
  std::vector<std::string> expected{"memory", "pids", "cpu"};
  if (group) {
    const auto rank = group->create_child("rank-0000");
    ASSERT_TRUE(rank);
    std::erase_if(expected,
                  [&](const std::string& name) { return rank->controller(name).has_value(); });
    group->remove();
  }

  EXPECT_EQ(missing_limits(), expected);

  EXPECT_FALSE(Cgroup::existing(fmt::format("trainrun-probe-{}", ::getpid())));
}

}  // namespace
}  // namespace train
