#include "daemon/supervisor/limits/memory_account.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace train {
namespace {

constexpr std::uint64_t kMebibyte = 1u << 20;

/// A worker's own group of 200 MiB, inside the group of a Slurm step of 4 GiB.
std::vector<MemoryGroup> groups() {
  return {{.path = "/sys/fs/cgroup/slurm/job_7/trainrun-1/rank-0001", .limit = 200 * kMebibyte},
          {.path = "/sys/fs/cgroup/slurm/job_7", .limit = 4096 * kMebibyte, .limit_hits = 3}};
}

std::string verdict(const std::vector<MemoryGroup>& before, const std::vector<MemoryGroup>& after,
                    bool own, bool killed) {
  const auto found = out_of_memory(before, after, own, killed);
  return found ? fmt::format("{} {} {}", found->owner, found->bytes / kMebibyte,
                             found->used / kMebibyte)
               : "no";
}

TEST(SmallestLimit, IsThatOfAnyGroupThatHasOne) {
  auto all = groups();
  EXPECT_EQ(smallest_limit(all), std::int64_t{200} * kMebibyte);
  all[0].limit = 0;
  EXPECT_EQ(smallest_limit(all), std::int64_t{4096} * kMebibyte);
  all[1].limit = ~std::uint64_t{0};
  EXPECT_EQ(smallest_limit(all), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(smallest_limit({}), 0);
}

TEST(OutOfMemory, OfTheClaim) {
  auto after = groups();
  after[0].kills = 1;
  after[0].limit_hits = 5;
  after[0].peak = 200 * kMebibyte;

  EXPECT_EQ(verdict(groups(), after, true, true), "claim 200 200");
  EXPECT_EQ(verdict(groups(), after, true, false), "claim 200 200");  // its child was killed
}

TEST(OutOfMemory, OfAGroupAbove) {
  auto after = groups();
  after[0].kills = 1;
  after[1].limit_hits = 4;
  after[1].peak = 4096 * kMebibyte;

  EXPECT_EQ(verdict(groups(), after, true, true), "slurm 4096 4096");
}

// As in Linux 6.18, with swap counted as well.
TEST(OutOfMemory, OfALimitThatWasReachedWithoutBeingCounted) {
  auto before = groups(), after = groups();
  before[1].reached = after[1].reached = true;  // by reading files
  after[0].kills = 1;
  after[0].peak = 200 * kMebibyte;
  after[0].reached = true;
  EXPECT_EQ(verdict(before, after, true, true), "claim 200 200");

  after[0].reached = false;
  EXPECT_EQ(verdict(before, after, true, true), "slurm 4096 0");
}

TEST(OutOfMemory, OfTheWholeNode) {
  auto after = groups();
  after[0].kills = 1;
  after[0].peak = 90 * kMebibyte;

  EXPECT_EQ(verdict(groups(), after, true, true), "node 0 90");
}

TEST(OutOfMemory, WhereTheGroupIsSharedOnlyOfAWorkerThatWasKilled) {
  const std::vector<MemoryGroup> before{
      {.path = "/sys/fs/cgroup/kubepods/pod1", .limit = 512 * kMebibyte, .kills = 2}};
  auto after = before;
  after[0].kills = 3;
  after[0].limit_hits = 1;
  after[0].peak = 512 * kMebibyte;

  EXPECT_EQ(verdict(before, after, false, true), "pod 512 512");
  EXPECT_EQ(verdict(before, after, false, false), "no");
}

TEST(OutOfMemory, NotOfOneThatWasKilledOtherwise) {
  EXPECT_EQ(verdict(groups(), groups(), true, true), "no");
  auto after = groups();
  after[0].limit_hits = 9;  // file pages were reclaimed in time
  EXPECT_EQ(verdict(groups(), after, true, true), "no");
  EXPECT_EQ(verdict({}, {}, true, true), "no");
  EXPECT_EQ(verdict(groups(), {}, false, true), "no");
}

TEST(OutOfMemory, NamesContainersAndOtherGroupsByTheirPath) {
  const auto owner = [](const std::string& path) {
    const std::vector<MemoryGroup> before{{.path = path, .limit = kMebibyte}};
    auto after = before;
    after[0].kills = after[0].limit_hits = 1;
    return out_of_memory(before, after, false, true)->owner;
  };
  EXPECT_EQ(owner("/sys/fs/cgroup/memory/docker/4f1c"), "container");
  EXPECT_EQ(owner("/sys/fs/cgroup/machine.slice/libpod-4f1c.scope"), "container");
  EXPECT_EQ(owner("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0"), "slurm");
}

TEST(OutOfMemory, OfAContainerThatSeesItsOwnGroupAsTheTopmostOne) {
  const std::vector<MemoryGroup> before{{.path = "/sys/fs/cgroup", .limit = kMebibyte}};
  auto after = before;
  after[0].kills = after[0].limit_hits = 1;
  ASSERT_EQ(::setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1), 0);
  EXPECT_EQ(verdict(before, after, false, true), "pod 1 0");
  EXPECT_EQ(verdict(before, after, true, true), "claim 1 0");
  ::unsetenv("KUBERNETES_SERVICE_HOST");
}

TEST(OutOfMemory, OfAGroupWithoutALimitIsNot) {
  auto before = groups(), after = groups();
  before[0].limit = after[0].limit = 0;
  after[0].kills = 1;
  after[0].limit_hits = 5;
  EXPECT_EQ(verdict(before, after, true, true), "node 0 0");
}

TEST(OomKills, AreThoseThatEitherVersionCounts) {
  char name[] = "/tmp/group-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  EXPECT_EQ(oom_kills(folder), 0u);
  std::ofstream(folder + "/memory.events") << "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\n";
  EXPECT_EQ(oom_kills(folder), 5u);
  std::ofstream(folder + "/memory.oom_control") << "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n";
  EXPECT_EQ(oom_kills(folder), 7u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace train
