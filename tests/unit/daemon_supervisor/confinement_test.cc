#include "daemon/supervisor/limits/confinement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <fstream>

#include "daemon/supervisor/processes/adopted.h"
#include "daemon/supervisor/processes/spawn.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  file >> value;
  return value;
}

/// Order two workers with 64 MiB, 1.5 processors and at most 7 processes each.
PrepareAttempt order() {
  PrepareAttempt order;
  order.local_world_size = 2;
  order.per_worker.memory_bytes = 64u << 20;
  order.per_worker.cpu = 1.5;
  order.limits.pids_max = 7;
  order.limits.cpu_limit = true;
  return order;
}

TEST(Confinement, AllWorkersOfANodeMayHaveHalfOfItsProcesses) {
  const CgroupLimits limits = limits_of_all(order());

  EXPECT_EQ(limits.pids, std::min(number_in("/proc/sys/kernel/pid_max"),
                                  number_in("/proc/sys/kernel/threads-max")) /
                             2);
  EXPECT_EQ(limits.cpus, 3.0);
  EXPECT_EQ(limits.memory_bytes, 0u);
  EXPECT_FALSE(limits.cpus_at_most);
}

TEST(Confinement, WithoutAGroupTheLimitsThatAreAskedForAreMissing) {
  Confinement confinement;
  ASSERT_TRUE(confinement.set(order()));
  EXPECT_EQ(confinement.missing(), (std::vector<std::string>{"memory", "pids", "cpu"}));
  EXPECT_FALSE(confinement.worker_group("rank-0000"));
  EXPECT_EQ(confinement.pids_limit_hit(std::nullopt), 0u);
  confinement.end();

  PrepareAttempt nothing = order();
  nothing.per_worker.memory_bytes = 0;
  nothing.limits.pids_max = 0;
  nothing.limits.cpu_limit = false;  // sharing scarce processors needs no group
  ASSERT_TRUE(confinement.set(nothing));
  EXPECT_EQ(confinement.missing(), std::vector<std::string>{});
}

TEST(Confinement, RulesThatCannotBeKeptAreAnError) {
  PrepareAttempt unknown = order();
  unknown.limits.rlimits = {{"speed", 1}};
  const auto set = Confinement().set(unknown);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, Errc::InvalidArgument);
}

class ConfinementInAGroup : public testing::Test {
 protected:
  void SetUp() override {
    confinement_.make_cgroup(name_);
    group_ = Cgroup::existing(name_);
    if (!group_ || !group_->controller("memory") || !group_->controller("cpu") ||
        !group_->controller("pids"))
      GTEST_SKIP() << "needs root, and hierarchies with memory, pids and cpu";
  }
  void TearDown() override {
    // The kernel unlists a killed process a moment later.
    EXPECT_TRUE(fakes::eventually([&] {
      confinement_.end();
      return !Cgroup::existing(name_);
    }));
  }
  /// Return the contents of a limit's file, from v1 or v2.
  static std::string limit(const Cgroup& group, const std::string& controller,
                           const std::string& v1, const std::string& v2) {
    const std::string folder = group.controller(controller).value_or("") + "/";
    std::string text;
    std::getline(
        std::ifstream(::access((folder + v1).c_str(), F_OK) == 0 ? folder + v1 : folder + v2),
        text);
    return text;
  }
  static std::string pids(const Cgroup& group) {
    return limit(group, "pids", "pids.max", "pids.max");
  }
  static std::string memory(const Cgroup& group) {
    return limit(group, "memory", "memory.limit_in_bytes", "memory.max");
  }

  const std::string name_ = fmt::format("trainrun-test-{}", ::getpid());
  Confinement confinement_;
  std::optional<Cgroup> group_;
};

TEST_F(ConfinementInAGroup, EachWorkerIsHeldToItsClaimAndAllToWhatTheyShare) {
  ASSERT_TRUE(confinement_.set(order()));
  EXPECT_EQ(confinement_.missing(), std::vector<std::string>{});

  const auto worker = confinement_.worker_group("rank-0000");
  const auto other = confinement_.group_without_claim("validation");

  ASSERT_TRUE(worker && other);
  EXPECT_EQ(pids(*group_), std::to_string(limits_of_all(order()).pids));
  EXPECT_EQ(pids(*worker), "7");
  EXPECT_EQ(memory(*worker), "67108864");
  EXPECT_EQ(pids(*other), "max");
  EXPECT_NE(memory(*other), "67108864");
  EXPECT_NE(memory(*group_), "67108864");
}

TEST_F(ConfinementInAGroup, AnIngestWorkerIsHeldToItsOwnClaim) {
  ASSERT_TRUE(confinement_.set(order()));

  const auto ingest =
      confinement_.ingest_group("ingest-1", {.cpu = 1, .memory_bytes = 32u << 20, .custom = {}});
  const auto unbounded = confinement_.ingest_group("ingest-2", {});

  ASSERT_TRUE(ingest && unbounded);
  EXPECT_EQ(memory(*ingest), "33554432");
  EXPECT_EQ(pids(*ingest), "7");
  EXPECT_NE(memory(*unbounded), "67108864");
}

TEST_F(ConfinementInAGroup, ALimitOnProcessesThatAWorkerHitIsNamed) {
  PrepareAttempt one = order();
  one.limits.pids_max = 1;
  ASSERT_TRUE(confinement_.set(one));
  const auto worker = confinement_.worker_group("rank-0000");
  ASSERT_TRUE(worker);
  EXPECT_EQ(confinement_.pids_limit_hit(worker), 0u);
  boost::asio::io_context context;
  const auto pid = spawn_process(context.get_executor(),
                                 {.argv = {"sh", "-c", "sleep 0 & exit 0"}, .cgroup = worker});
  ASSERT_TRUE(pid) << pid.error().message;
  ASSERT_EQ(::waitpid(*pid, nullptr, 0), *pid);
  forget_own_child(*pid);

  EXPECT_EQ(confinement_.pids_limit_hit(worker), 1u);
  EXPECT_EQ(confinement_.pids_limit_hit(std::nullopt), 0u);
}

TEST(Confinement, TheShareOfANodesWorkersIncludesTheIngestWorkers) {
  PrepareAttempt with_ingest = order();
  with_ingest.ingest.cpu = 2;

  EXPECT_EQ(limits_of_all(with_ingest).cpus, 5.0);
}

}  // namespace
}  // namespace train
