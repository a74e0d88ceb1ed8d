// What it costs to take the stacks of processes (docs/testing.md, "Stacks").
//
//   stack_cost PROCESSES THREADS [TIMES]   of processes that it starts, whose threads wait
//   stack_cost --of PID...                 of running ones
//   stack_cost --show PID...               prints them as users see them, the first pid as rank 0
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "lib/stacks/proc_files.h"
#include "lib/stacks/stack_text.h"
#include "lib/stacks/take_stacks.h"

namespace {

using namespace train;

[[gnu::noinline]] void wait_deep(int depth) {
  if (depth > 0)
    wait_deep(depth - 1);
  else
    ::pause();
  asm volatile("");  // no tail call: each depth is a frame
}

pid_t start_process(int threads) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(wait_deep, 20);
  wait_deep(20);
  ::_exit(0);
}

bool all_wait(const std::vector<pid_t>& pids, std::size_t threads) {
  return std::all_of(pids.begin(), pids.end(), [threads](pid_t pid) {
    const auto tids = threads_of(pid);
    return tids && tids->size() == threads &&
           std::all_of(tids->begin(), tids->end(),
                       [pid](pid_t tid) { return thread_state(pid, tid) == 'S'; });
  });
}

void measure(const std::vector<pid_t>& pids) {
  const auto began = std::chrono::steady_clock::now();
  const auto stacks = take_stacks(pids, began + seconds{30}, {.unwinder = UNWINDER, .limits = {}});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (!stacks) {
    std::fprintf(stderr, "stack_cost: %s\n", stacks.error().describe().c_str());
    return;
  }
  std::vector<double> stopped;
  std::size_t frames = 0, notes = 0;
  for (const ProcessStacks& process : *stacks) {
    notes += process.notes.size();
    for (const ThreadStack& thread : process.threads) {
      frames += thread.frames.size();
      notes += thread.facts.note.empty() ? 0 : 1;
      stopped.push_back(
          std::chrono::duration<double, std::milli>(thread.facts.stopped_for).count());
    }
  }
  std::sort(stopped.begin(), stopped.end());
  if (stopped.empty()) stopped.push_back(0);
  rusage children{};
  ::getrusage(RUSAGE_CHILDREN, &children);
  std::printf(
      "%zu threads, %zu frames, %zu notes: %.3f s; stopped p50 %.3f p99 %.3f max %.3f ms; "
      "unwinder's peak %ld MiB\n",
      stopped.size(), frames, notes, took.count(), stopped[stopped.size() / 2],
      stopped[stopped.size() * 99 / 100], stopped.back(), children.ru_maxrss >> 10);
}

void show(const std::vector<pid_t>& pids) {
  const auto stacks = take_stacks(pids, std::chrono::steady_clock::now() + seconds{30},
                                  {.unwinder = UNWINDER, .limits = {}});
  std::vector<RankStacks> ranks;
  for (std::size_t i = 0; stacks && i < stacks->size(); ++i)
    ranks.push_back({.rank = static_cast<std::int32_t>(i), .node = "", .process = stacks->at(i)});
  std::fputs(describe_stacks(ranks).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]).starts_with("--")) {
    std::vector<pid_t> pids;
    for (int i = 2; i < argc; ++i) pids.push_back(std::atoi(argv[i]));
    if (std::string(argv[1]) == "--show") show(pids);
    for (int i = 0; i < 5; ++i) measure(pids);
    return 0;
  }
  const int processes = argc > 1 ? std::atoi(argv[1]) : 64,
            threads = argc > 2 ? std::atoi(argv[2]) : 8;
  const int times = argc > 3 ? std::atoi(argv[3]) : 5;
  std::vector<pid_t> pids;
  for (int i = 0; i < processes; ++i) pids.push_back(start_process(threads));
  while (!all_wait(pids, static_cast<std::size_t>(threads)))
    std::this_thread::sleep_for(milliseconds{10});
  for (int i = 0; i < times; ++i) measure(pids);
  for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
  return 0;
}
