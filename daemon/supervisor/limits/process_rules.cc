#include "daemon/supervisor/limits/process_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <utility>

#include "lib/base/cpu_list.h"
#include "lib/base/user_account.h"

namespace train {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 9> kLimits{{
    {"as", RLIMIT_AS},
    {"core", RLIMIT_CORE},
    {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},
    {"memlock", RLIMIT_MEMLOCK},
    {"nofile", RLIMIT_NOFILE},
    {"nproc", RLIMIT_NPROC},
    {"stack", RLIMIT_STACK},
}};

constexpr int kSignalMax = 64;
constexpr unsigned kMemoryNodesMax = 1024;  // Linux's greatest CONFIG_NODES_SHIFT is 10

struct KernelSigaction {  // as rt_sigaction(2) takes it on x86-64 and arm64
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

// Use the system call: glibc's function refuses 32 and 33, which it reserves. Its posix_spawn()
// leaves those two ignored, so that whatever make(1) starts ignores them.
void reset_signals(const std::vector<int>& ignored) {
  for (int number = 1; number <= kSignalMax; ++number) {
    const bool ignore = std::find(ignored.begin(), ignored.end(), number) != ignored.end();
    const KernelSigaction action{ignore ? SIG_IGN : SIG_DFL, 0, nullptr, 0};
    ::syscall(SYS_rt_sigaction, number, &action, nullptr, sizeof action.mask);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Raising the score needs no privilege; lowering one that somebody raised would.
void raise_oom_score() {
  const int fd = ::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  char first = 0;
  if (::read(fd, &first, 1) == 1 && first == '-') {
    [[maybe_unused]] const auto written = ::pwrite(fd, "0", 1, 0);
  }
  ::close(fd);
}

CpuMask mask_of(const WorkerBinding& binding) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  CpuMask mask;
  for (const int cpu : parse_cpu_list(binding.cpus).value_or(CpuSet{})) {
    const auto bit = static_cast<std::size_t>(cpu);
    if (mask.size() <= bit / kBits) mask.resize(bit / kBits + 1, 0);
    mask[bit / kBits] |= 1ul << bit % kBits;
  }
  return mask;
}

long set_affinity(pid_t thread, const CpuMask& mask) {
  return ::syscall(SYS_sched_setaffinity, thread, mask.size() * sizeof mask[0], mask.data());
}

// A worker is better slow than not there: if our own cpuset has changed, it goes without.
void bind_self(const ProcessRules& rules) {
  if (!rules.cpus.empty()) set_affinity(0, rules.cpus);
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[kMemoryNodesMax / kBits] = {};
  if (rules.memory_node < 0 || rules.memory_node >= static_cast<int>(kMemoryNodesMax)) return;
  const auto node = static_cast<unsigned>(rules.memory_node);
  nodes[node / kBits] = 1ul << node % kBits;
  ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, kMemoryNodesMax + 1);
}

std::optional<int> rlimit_of(std::string_view name) {
  for (const auto& [known, resource] : kLimits) {
    if (known == name) return resource;
  }
  return std::nullopt;
}

}  // namespace

// Workers ignore SIGUSR1: Slurm sends it to all processes of a step, as an early warning.
Result<ProcessRules> worker_rules(const ProcessLimits& limits) {
  ProcessRules rules{.may_gain_privileges = false,
                     .keeps_capabilities = limits.keep_capabilities,
                     .killed_for_memory_like_others = true,
                     .ignored_signals = {SIGUSR1},
                     .umask = limits.umask & 0777};
  for (const auto& [name, value] : limits.rlimits) {
    const auto resource = rlimit_of(name);
    if (!resource) {
      return Error{Errc::InvalidArgument,
                   fmt::format("run_config.rlimits.{} is not a limit that this traind knows", name),
                   "remove it, or use a newer traind"};
    }
    rules.limits.push_back(
        {*resource, value < 0 ? RLIM_INFINITY : static_cast<rlim_t>(value), name});
  }
  return rules;
}

void bind(ProcessRules& rules, const WorkerBinding& binding) {
  rules.cpus = mask_of(binding);
  rules.memory_node = binding.memory_node;
}

void bind_process(pid_t pid, const WorkerBinding& binding) {
  const CpuMask mask = mask_of(binding);
  std::error_code gone;
  if (mask.empty()) return;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), gone)) {
    const std::string name = thread.path().filename().string();
    pid_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number > 0) set_affinity(number, mask);
  }
}

Result<Unit> check_limits(const ProcessRules& rules) {
  for (const ResourceLimit& limit : rules.limits) {
    rlimit ours{};
    if (::getrlimit(static_cast<__rlimit_resource>(limit.resource), &ours) != 0)
      return system_error(errno, "reading the limit " + limit.name);
    if (limit.value <= ours.rlim_max || has_capability(CAP_SYS_RESOURCE)) continue;
    return Error{
        Errc::Permission,
        fmt::format("run_config.rlimits.{} is {}, and this node allows at most {}", limit.name,
                    limit.value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit.value),
                    ours.rlim_max),
        "lower it, or raise the hard limit of traind there"};
  }
  return Unit{};
}

Result<Unit> check_open_files(std::int64_t workers) {
  constexpr rlim_t kOwn = 16, kOfEach = 6;  // of each: two pipes, two spools, a pidfd, a connection
  rlimit limit{};
  const rlim_t needed = kOwn + kOfEach * static_cast<rlim_t>(workers);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return Unit{};
  return Error{Errc::InvalidArgument,
               fmt::format("{} workers on a node need about {} open files, but its limit is {}",
                           workers, needed, limit.rlim_cur),
               "raise the hard limit of its traind (ulimit -Hn, systemd's LimitNOFILE=), or have "
               "fewer workers on a node"};
}

// If somebody has chosen this process to be killed before others, leave it so.
void ask_to_be_spared(int oom_score_adj) {
  std::fstream file("/proc/self/oom_score_adj");
  int now = 0;
  if (!(file >> now) || now > 0) return;
  file.seekp(0);
  file << oom_score_adj << std::flush;
}

// Do nothing under a limit: allocations would fail once it is reached.
void keep_in_memory() {
  rlimit limit{};
  const bool unlimited =
      ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
  if (unlimited || has_capability(CAP_IPC_LOCK)) ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

int apply_rules(const ProcessRules& rules) {
  reset_signals(rules.ignored_signals);
  if (rules.umask) ::umask(*rules.umask);
  for (const ResourceLimit& limit : rules.limits) {
    const rlimit value{limit.value, limit.value};
    if (::setrlimit(static_cast<__rlimit_resource>(limit.resource), &value) != 0) return errno;
  }
  if (rules.killed_for_memory_like_others) raise_oom_score();
  bind_self(rules);
  if (!rules.may_gain_privileges && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return rules.keeps_capabilities ? 0 : drop_capabilities();
}

}  // namespace train
