// What binds a worker to CPUs, and what it sees of a GPU that it shares.
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "daemon/supervisor/limits/process_rules.h"
#include "daemon/supervisor/workers/worker_environment.h"

namespace train {
namespace {

/// Return what `body` returns in a child of this process.
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(WorkerBinding, AWorkerIsBoundToItsCpusAndItsMemoryComesFromItsNodeFirst) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<unsigned>(cpu), &all)) last = cpu;
  ProcessRules rules;
  bind(rules, {.cpus = std::to_string(last), .memory_node = 0, .exclusive = true});

  const int seen = in_child([&] {
    if (apply_rules(rules) != 0) return 1;
    cpu_set_t mine;
    if (::sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) != 1 ||
        !CPU_ISSET(static_cast<unsigned>(last), &mine))
      return 2;
    int policy = -1;
    const bool asked = ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) == 0;
    return asked && policy != MPOL_PREFERRED ? 3 : 0;
  });

  EXPECT_EQ(seen, 0);
}

TEST(WorkerBinding, ABindingThatCannotBeReadIsNone) {
  ProcessRules rules;
  bind(rules, {.cpus = "none"});

  EXPECT_TRUE(rules.cpus.empty());
  EXPECT_EQ(rules.memory_node, -1);
}

TEST(WorkerBinding, AProcessThatRunsAlreadyIsBoundWithItsThreads) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  cpu_set_t all, its;
  ::sched_getaffinity(0, sizeof all, &all);
  int first = 0;
  while (!CPU_ISSET(static_cast<unsigned>(first), &all)) ++first;

  bind_process(child, {.cpus = std::to_string(first)});

  EXPECT_EQ(::sched_getaffinity(child, sizeof its, &its), 0);
  EXPECT_EQ(CPU_COUNT(&its), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(SharedGpu, WorkersThatShareAGpuSeeThatOneOnly) {
  const StartWorkers start = StartWorkers{};
  const auto seen = [&](std::int32_t local_rank, double gpus_per_worker) {
    const WorkerRanks ranks{.local_rank = local_rank, .local_world_size = 5};
    const NodeEnvironment node{start, Attempt{0}, "/s", {"2", "5", "7"}, gpus_per_worker};
    return worker_environment(node, {ranks, "/c", "/e", ""}).at("CUDA_VISIBLE_DEVICES");
  };

  EXPECT_EQ(seen(0, 0.4), "2");
  EXPECT_EQ(seen(1, 0.4), "2");
  EXPECT_EQ(seen(2, 0.4), "5");
  EXPECT_EQ(seen(4, 0.4), "7");
  EXPECT_EQ(seen(4, 0.1), "2");
  EXPECT_EQ(seen(4, 1), "2,5,7");
}

}  // namespace
}  // namespace train
