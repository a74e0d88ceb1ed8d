#include "daemon/supervisor/limits/cgroup_places.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Folders = std::map<std::string, std::string>;

constexpr std::string_view kUnified =
    "24 1 0:22 / /proc rw - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(CgroupPlaces, OfAServiceInTheUnifiedTree) {
  const auto places = parse_cgroup_places(kUnified, "0::/system.slice/traind.service\n");

  EXPECT_EQ(places.v2, "/sys/fs/cgroup/system.slice/traind.service");
  EXPECT_EQ(places.v2_top, "/sys/fs/cgroup");
  EXPECT_EQ(places.v1, Folders{});
}

TEST(CgroupPlaces, AtTheTop) {
  EXPECT_EQ(parse_cgroup_places(kUnified, "0::/\n").v2, "/sys/fs/cgroup");
}

TEST(CgroupPlaces, OfAMachineThatHasBoth) {
  const auto places = parse_cgroup_places(
      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
      "7:cpu,cpuacct:/jobs\n4:memory:/jobs/42\n1:name=systemd:/\n3:pids:/\n0::/\n");

  EXPECT_EQ(places.v2, "/sys/fs/cgroup/unified");
  EXPECT_EQ(places.v1, (Folders{{"cpu", "/sys/fs/cgroup/cpu,cpuacct/jobs"},
                                {"cpuacct", "/sys/fs/cgroup/cpu,cpuacct/jobs"},
                                {"memory", "/sys/fs/cgroup/memory/jobs/42"},
                                {"name=systemd", "/sys/fs/cgroup/systemd"}}));
  EXPECT_EQ(places.v1_tops.at("memory"), "/sys/fs/cgroup/memory");
}

// The mount shows the container's part of the tree; /proc shows the full path.
TEST(CgroupPlaces, InAContainerWithoutANamespaceOfItsOwn) {
  const std::string mounts =
      "9 8 0:30 /docker/4f1c /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";

  EXPECT_EQ(parse_cgroup_places(mounts, "4:memory:/docker/4f1c\n").v1.at("memory"),
            "/sys/fs/cgroup/memory");
  EXPECT_EQ(parse_cgroup_places(mounts, "4:memory:/docker/4f1c/job\n").v1.at("memory"),
            "/sys/fs/cgroup/memory/job");
  EXPECT_EQ(parse_cgroup_places(mounts, "4:memory:/docker/4f1cd\n").v1, Folders{});
  EXPECT_EQ(parse_cgroup_places(mounts, "4:memory:/elsewhere\n").v1, Folders{});
}

TEST(CgroupPlaces, NoneWhereNothingIsMountedOrReadable) {
  EXPECT_EQ(parse_cgroup_places("", "0::/\n").v2, std::nullopt);
  EXPECT_EQ(parse_cgroup_places(kUnified, "").v2, std::nullopt);
  EXPECT_EQ(parse_cgroup_places("1 cgroup2 / /sys/fs/cgroup x y\n", "0::/\n").v2, std::nullopt);
  EXPECT_EQ(parse_cgroup_places("31 - cgroup2\nx - y\n - \n", "0:\n:\n\n").v2, std::nullopt);
}

}  // namespace
}  // namespace train
