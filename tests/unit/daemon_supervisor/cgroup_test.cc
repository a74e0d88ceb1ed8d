#include "daemon/supervisor/limits/cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <fstream>

#include "daemon/supervisor/limits/cgroup_locations.h"
#include "daemon/supervisor/limits/memory_account.h"
#include "daemon/supervisor/limits/oom_watch.h"
#include "daemon/supervisor/processes/spawn.h"
#include "daemon/supervisor/workers/worker_sampler.h"
#include "lib/base/user_account.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

/// Return whether a group can be made in this v1 hierarchy: then there must be one.
bool can_be_made(const std::string& controller) {
  const CgroupLocations locations = own_cgroup_locations();
  const auto own = locations.v1.find(controller);
  return ::geteuid() == 0 && own != locations.v1.end() && ::access(own->second.c_str(), W_OK) == 0;
}

class CgroupTest : public testing::TestWithParam<CgroupVersion> {
 protected:
  static std::optional<Cgroup> make_group() {
    auto group = Cgroup::create_in(GetParam(), fmt::format("trainrun-test-{}", ::getpid()));
    if (GetParam() == CgroupVersion::V1) EXPECT_EQ(group.has_value(), can_be_made("freezer"));
    return group;
  }
};

// Start a child that joins the cgroup, hides a grandchild in another session, and sends us its pid.
pid_t start_family(const Cgroup& group, int* grandchild_pipe) {
  int pipe_fds[2];
  EXPECT_EQ(::pipe(pipe_fds), 0);
  const std::string procs = group.procs_path();
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(procs.c_str(), O_WRONLY);
    if (fd < 0 || ::write(fd, "0", 1) != 1) ::_exit(1);
    if (::fork() == 0) {
      ::setsid();
      if (::fork() == 0) {
        [[maybe_unused]] const auto said = ::write(pipe_fds[1], "x", 1);
        ::close(pipe_fds[1]);
        for (;;) ::pause();
      }
      ::_exit(0);
    }
    for (;;) ::pause();
  }
  ::close(pipe_fds[1]);
  char byte = 0;
  EXPECT_EQ(::read(pipe_fds[0], &byte, 1), 1);
  *grandchild_pipe = pipe_fds[0];
  return child;
}

TEST_P(CgroupTest, KillsTheWholeFamilyHoweverItHides) {
  const auto group = make_group();
  if (!group) GTEST_SKIP() << "this hierarchy is not mounted, or not writable here";
  const auto rank = group->create_child("rank-0000");
  ASSERT_TRUE(rank);
  int pipe_fd = -1;
  const pid_t child = start_family(*rank, &pipe_fd);
  EXPECT_TRUE(rank->populated());
  EXPECT_TRUE(group->populated());

  group->kill();

  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  char byte = 0;
  EXPECT_EQ(::read(pipe_fd, &byte, 1), 0)
      << "the hidden grandchild must not hold its pipe any more";
  ::close(pipe_fd);
  // The kernel unlists a killed process a moment later.
  ASSERT_TRUE(fakes::eventually([&] { return !rank->populated(); }));
  group->remove();
  EXPECT_NE(::access(group->path().c_str(), F_OK), 0);
}

// v2: the program is born there. v1: its process moves there before execve().
TEST_P(CgroupTest, AProgramIsInItFromItsFirstInstruction) {
  const auto group = make_group();
  if (!group) GTEST_SKIP() << "this hierarchy is not mounted, or not writable here";
  boost::asio::io_context context;
  SpawnRequest request{.argv = {"tail", "-f", "/dev/null"}, .cgroup = group};

  const auto pid = spawn_process(context.get_executor(), request);
  ASSERT_TRUE(pid) << pid.error().message;
  std::ifstream procs(group->procs_path());
  pid_t listed = 0;
  EXPECT_TRUE(procs >> listed);
  EXPECT_EQ(listed, *pid);

  request.argv = {"no-such-program"};
  const auto none = spawn_process(context.get_executor(), request);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::NotFound);

  group->kill();
  ASSERT_EQ(::waitpid(*pid, nullptr, 0), *pid);
  EXPECT_TRUE(fakes::eventually([&] { return !group->populated(); }));
  group->remove();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

/// Makes a group in every hierarchy, and removes it after the test.
class CgroupLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    group_ = Cgroup::create(fmt::format("trainrun-test-{}", ::getpid()));
    bool all = true;
    for (const char* controller : {"memory", "cpu", "pids"}) {
      const bool there = group_ && group_->controller(controller);
      if (can_be_made(controller)) EXPECT_TRUE(there) << controller;
      all = all && there;
    }
    if (!all) GTEST_SKIP() << "needs root, and hierarchies with memory, pids and cpu";
    rank_ = group_->create_child("rank-0000");
    ASSERT_TRUE(rank_);
  }
  void TearDown() override {
    if (!group_) return;
    group_->kill();
    EXPECT_TRUE(fakes::eventually([&] { return !group_->populated(); }));
    group_->remove();
    for (const char* controller : {"memory", "pids", "cpu"})
      EXPECT_FALSE(group_->controller(controller) &&
                   ::access(group_->controller(controller)->c_str(), F_OK) == 0)
          << controller;
  }
  std::string set(const std::string& controller, const std::string& v1, const std::string& v2) {
    const std::string folder = rank_->controller(controller).value_or("");
    return text_of(folder + "/" + (::access((folder + "/" + v1).c_str(), F_OK) == 0 ? v1 : v2));
  }

  std::optional<Cgroup> group_, rank_;
};

TEST_F(CgroupLimitsTest, AreSetWhereverTheirControllersAre) {
  EXPECT_EQ(
      rank_->set_limits({.memory_bytes = 64u << 20, .pids = 77, .cpus = 2.5, .cpus_at_most = true}),
      std::vector<std::string>{});

  EXPECT_EQ(set("memory", "memory.limit_in_bytes", "memory.max"), "67108864");
  EXPECT_EQ(set("pids", "pids.max", "pids.max"), "77");
  const std::string shares = set("cpu", "cpu.shares", "cpu.weight");
  EXPECT_TRUE(shares == "2560" || shares == "250") << shares;
  const std::string quota = set("cpu", "cpu.cfs_quota_us", "cpu.max");
  EXPECT_TRUE(quota == "250000" || quota == "250000 100000") << quota;
}

TEST_F(CgroupLimitsTest, HoldFromTheFirstInstructionOn) {
  ASSERT_EQ(rank_->set_limits({.pids = 1}), std::vector<std::string>{});
  boost::asio::io_context context;
  const auto pid = spawn_process(context.get_executor(),
                                 {.argv = {"sh", "-c", "sleep 1000 & exit 0"}, .cgroup = rank_});
  ASSERT_TRUE(pid) << pid.error().message;

  int status = 0;
  ASSERT_EQ(::waitpid(*pid, &status, 0), *pid);
  EXPECT_NE(WEXITSTATUS(status), 0);
  EXPECT_GT(rank_->refused_processes(), 0u);
  EXPECT_EQ(group_->refused_processes(), 0u);
}

TEST_F(CgroupLimitsTest, AreThoseOfTheWorkerAlone) {
  ASSERT_EQ(rank_->set_limits({.pids = 1}), std::vector<std::string>{});
  const auto other = group_->create_child("rank-0001");
  boost::asio::io_context context;
  const auto pid = spawn_process(context.get_executor(),
                                 {.argv = {"sh", "-c", "sleep 0 & exit 0"}, .cgroup = other});
  ASSERT_TRUE(pid) << pid.error().message;

  int status = 0;
  ASSERT_EQ(::waitpid(*pid, &status, 0), *pid);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The whole rank ends: those that wait for the one that the kernel chose would wait forever.
TEST_F(CgroupLimitsTest, OfMemoryEndTheWholeRankAndAreTold) {
  constexpr std::uint64_t kLimit = 32u << 20;
  ASSERT_EQ(rank_->set_limits({.memory_bytes = kLimit}), std::vector<std::string>{});
  const auto account = MemoryAccount::begin(rank_);
  EXPECT_EQ(account.limit(), std::int64_t{kLimit});
  std::map<Rank, WorkerSlot> slots;
  slots[Rank{0}].pid = ::getpid();
  slots[Rank{0}].memory = account;
  EXPECT_EQ(WorkerSampler(slots).take().at(0).ranks.at(0).process.memory_limit,
            std::int64_t{kLimit});
  boost::asio::io_context context;
  boost::asio::co_spawn(context, kill_all_when_out_of_memory(context.get_executor(), *rank_),
                        [](const std::exception_ptr&) {});
  context.poll();
  const auto spawn = [&](const char* script) {
    return spawn_process(context.get_executor(), {.argv = {"sh", "-c", script}, .cgroup = rank_});
  };
  const auto waits = spawn("exec sleep 1000");
  const auto grows = spawn("a=xxxxxxxxxxxxxxxx; while :; do a=$a$a; done");
  ASSERT_TRUE(waits && grows);

  context.run();

  for (const pid_t pid : {*waits, *grows}) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  const auto limit = account.end(/*killed=*/true);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->owner, "claim");
  EXPECT_EQ(limit->bytes, kLimit);
  EXPECT_GE(limit->used, kLimit - kLimit / 8);
  EXPECT_LE(limit->used, kLimit);
}

// A worker outside of its group would have no limits, and outlive it.
TEST_F(CgroupLimitsTest, AProgramDoesNotStartOutsideOfAGroupThatIsGone) {
  boost::asio::io_context context;
  rank_->remove();
  const auto pid = spawn_process(context.get_executor(), {.argv = {"true"}, .cgroup = rank_});
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().message, "starting 'true': No such file or directory");
}

// Checks the group as another user's supervisor finds it.
TEST(CgroupOfAnotherUser, TheUserOwnsItButForItsLimits) {
  const auto group = Cgroup::create(fmt::format("trainrun-test-{}", ::getpid()));
  if (::geteuid() != 0 || !group) GTEST_SKIP() << "needs root, and a cgroup that can be written";
  const UserAccount user = find_account("nobody").value();
  const auto first = group->delegate_to(user.uid, user.gid);
  ASSERT_TRUE(first);
  const auto memory = group->controller("memory");

  const std::string limit = memory
                                ? *memory + (::access((*memory + "/memory.max").c_str(), F_OK) == 0
                                                 ? "/memory.max"
                                                 : "/memory.limit_in_bytes")
                                : "/proc/1/oom_score_adj";
  // Do what Supervisor does first, and try what it must not be able to do.
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const std::string& file : first->limit_paths()) std::ofstream(file) << "0" << std::flush;
    std::ofstream(first->procs_path()) << "0" << std::flush;
    become(user);
    const auto workers = Cgroup::create("workers");
    if (!workers) ::_exit(2);
    if (!workers->path().starts_with(group->path() + "/")) ::_exit(3);
    const auto rank = workers->create_child("rank-0000");
    if (!rank) ::_exit(4);
    if (memory && !rank->set_limits({.memory_bytes = 64u << 20}).empty()) ::_exit(5);
    if (::open(limit.c_str(), O_WRONLY) >= 0) ::_exit(6);
    std::ofstream join(rank->procs_path());
    if (!(join << ::getpid() << std::flush)) ::_exit(7);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  group->kill();
  group->remove();
  EXPECT_FALSE(Cgroup::existing(fmt::format("trainrun-test-{}", ::getpid())));
}

INSTANTIATE_TEST_SUITE_P(Hierarchies, CgroupTest,
                         testing::Values(CgroupVersion::V2, CgroupVersion::V1));

}  // namespace
}  // namespace train
