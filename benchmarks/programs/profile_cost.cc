// What it costs a process to be profiled (benchmarks/README.md): turns of a loop in each second in
// which it did not wait for a processor, with a profile and without, one after the other. So other
// programs do not count, but stops do.
//
//   profile_cost [TIMES [SECONDS]] [PEER COMMAND]...
//
// A peer is a shell command that profiles a process for a while: {pid} and {seconds} stand for
// which and how long. Each window of a profile is compared with the one before it without.
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/profile/sampling/take_profile.h"
#include "lib/stacks/proc_files.h"

namespace {

using namespace train;

constexpr int kDepth = 40;  // frames, as a LibTorch program has

/// Turns of the loop, in memory that the process shares with us.
std::atomic<std::uint64_t>* shared_turns() {
  void* memory = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) std::atomic<std::uint64_t>(0);
}

[[gnu::noinline]] void work(std::atomic<std::uint64_t>& turns, int depth) {
  if (depth > 0) {
    work(turns, depth - 1);
    asm volatile("");  // no tail call: each depth is a frame
    return;
  }
  for (std::uint64_t x = 1; turns != UINT64_MAX;) {
    for (int i = 0; i < 1000; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
    turns.fetch_add(1, std::memory_order_relaxed);
    asm volatile("" : : "r"(x));
  }
}

pid_t start_worker(std::atomic<std::uint64_t>& turns) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::thread([] {
    while (true) ::pause();  // most threads of a worker wait
  }).detach();
  work(turns, kDepth);
  ::_exit(0);
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_s_of(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Return for how long its first thread was ready and had no processor.
double waited_s_of(pid_t pid) {
  const std::string text = read_proc_text(fmt::format("/proc/{0}/task/{0}/schedstat", pid), 128);
  unsigned long long ran = 0, waited = 0;
  return std::sscanf(text.c_str(), "%llu %llu", &ran, &waited) == 2
             ? 1e-9 * static_cast<double>(waited)
             : 0;
}

double our_cpu_s() {
  double total = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    total += static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
             1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  }
  return total;
}

struct Window {
  double per_second = 0, per_cpu_second = 0, cost_s = 0;
};

Window measure(pid_t worker, const std::atomic<std::uint64_t>& turns,
               const std::function<void()>& meanwhile) {
  const double began = now_s(), waited = waited_s_of(worker), cpu = cpu_s_of(worker),
               ours = our_cpu_s();
  const std::uint64_t before = turns;
  meanwhile();
  const auto done = static_cast<double>(turns - before);
  return {done / (now_s() - began - (waited_s_of(worker) - waited)),
          done / (cpu_s_of(worker) - cpu), our_cpu_s() - ours};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

int refuse(perf_event_attr&, pid_t) {
  errno = EACCES;
  return -1;
}

std::string filled_in(std::string command, pid_t pid, double seconds_long) {
  const std::pair<std::string, std::string> values[] = {
      {"{pid}", std::to_string(pid)}, {"{seconds}", fmt::format("{}", seconds_long)}};
  for (const auto& [name, value] : values)
    for (std::size_t at; (at = command.find(name)) != command.npos;)
      command.replace(at, name.size(), value);
  return command;
}

}  // namespace

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::atoi(argv[1]) : 10;
  const double window_s = argc > 2 ? std::atof(argv[2]) : 2;
  auto* turns = shared_turns();
  if (turns == nullptr || times < 1 || window_s <= 0) return 2;
  const pid_t worker = start_worker(*turns);
  const auto window = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(window_s));

  std::vector<std::pair<std::string, std::function<void()>>> subjects;
  const auto add_ours = [&](const char* name, ProfileKind kind, PerfOpen open) {
    subjects.emplace_back(name, [=] {
      const SamplingOrder order{.kind = kind,
                                .time = window,
                                .processes =
                                    [worker] {
                                      return std::vector<ProfiledProcess>{{worker, ""}};
                                    },
                                .perf_open = open};
      const auto profile = take_profile(order, {.unwinder = UNWINDER});
      if (!profile) std::fprintf(stderr, "%s\n", profile.error().describe().c_str());
    });
  };
  add_ours("cpu, perf events", ProfileKind::Cpu, open_perf_event);
  add_ours("cpu, stops (ptrace)", ProfileKind::Cpu, refuse);
  add_ours("wall, stops (ptrace)", ProfileKind::Wall, refuse);
  for (int i = 3; i + 1 < argc; i += 2)
    subjects.emplace_back(argv[i], [command = filled_in(argv[i + 1], worker, window_s)] {
      if (std::system(command.c_str()) != 0) std::fprintf(stderr, "failed: %s\n", command.c_str());
    });

  std::vector<std::vector<double>> slower(subjects.size()), dearer(subjects.size()),
      costs(subjects.size());
  for (int time = 0; time < times; ++time) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      const Window without = measure(worker, *turns, [&] { std::this_thread::sleep_for(window); });
      const Window with = measure(worker, *turns, subjects[i].second);
      slower[i].push_back(100 * (1 - with.per_second / without.per_second));
      dearer[i].push_back(100 * (1 - with.per_cpu_second / without.per_cpu_second));
      costs[i].push_back(with.cost_s);
    }
  }
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const auto [least, most] = std::minmax_element(slower[i].begin(), slower[i].end());
    std::printf(
        "%-24s %5.2f %% slower (%.2f to %.2f); %5.2f %% fewer turns in a second of its CPU time; "
        "the profile itself takes %.2f s of CPU time\n",
        subjects[i].first.c_str(), median(slower[i]), *least, *most, median(dearer[i]),
        median(costs[i]));
  }
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  return 0;
}
