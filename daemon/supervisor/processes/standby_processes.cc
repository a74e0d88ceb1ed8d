#include "daemon/supervisor/processes/standby_processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/supervisor/processes/adopted.h"

namespace train {
namespace {

void close_pipes(const StandbyProcess& standby) {
  for (const int fd : {standby.process.stdout_fd, standby.process.stderr_fd})
    if (fd >= 0) ::close(fd);
}

bool reap_if_dead(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, WNOHANG) != pid || WIFSTOPPED(status)) return false;
  forget_own_child(pid);
  return true;
}

}  // namespace

void StandbyProcesses::start(asio::any_io_executor executor, const NodeEnvironment& node, int count,
                             const Confinement& confinement) {
  gpus_ = node.gpus;
  for (int number = 0; number < count; ++number) {
    StandbyProcess standby{.number = number, .process = {}, .cgroup = {}, .env = {}};
    standby.env = standby_environment(node, number);
    standby.mark = fmt::format("TRAINRUN_STANDBY={}", number);
    standby.group = fmt::format("standby-{:04}", number);
    standby.cgroup = confinement.worker_group(standby.group);
    const auto process = spawn_piped(executor, {.argv = node.start.command,
                                                .working_dir = node.start.working_dir,
                                                .env = standby.env,
                                                .inherit_fds = {},
                                                .cgroup = standby.cgroup,
                                                .rules = confinement.rules()});
    if (!process) return;
    standby.process = *process;
    waiting_.push_back(std::move(standby));
  }
}

void StandbyProcesses::keep(std::vector<StandbyProcess> workers, std::vector<std::string> gpus) {
  gpus_ = std::move(gpus);
  waiting_ = std::move(workers);
  were_workers_ = true;
  for (const StandbyProcess& worker : waiting_) note_own_child(worker.process.pid);
}

std::optional<StandbyProcess> StandbyProcesses::take(Rank rank,
                                                     const std::vector<std::string>& gpus) {
  if (gpus != gpus_) return std::nullopt;
  for (;;) {
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const StandbyProcess& standby) {
          return !were_workers_ || standby.number == rank.value;
        });
    if (found == waiting_.end()) return std::nullopt;
    StandbyProcess next = std::move(*found);
    waiting_.erase(found);
    if (!reap_if_dead(next.process.pid)) {
      taken_.emplace(next.number, rank);
      return next;
    }
    close_pipes(next);
  }
}

std::size_t StandbyProcesses::reap() {
  std::erase_if(waiting_, [](const StandbyProcess& standby) {
    if (!reap_if_dead(standby.process.pid)) return false;
    close_pipes(standby);
    return true;
  });
  return waiting_.size();
}

std::vector<pid_t> StandbyProcesses::close() {
  closed_ = true;
  std::vector<pid_t> killed;
  for (const StandbyProcess& standby : std::exchange(waiting_, {})) {
    const pid_t pid = standby.process.pid;
    if (standby.cgroup) standby.cgroup->kill();
    ::kill(-pid, SIGKILL);  // its session's process group
    close_pipes(standby);
    killed.push_back(pid);
  }
  return killed;
}

std::optional<Rank> StandbyProcesses::rank_of(int number, bool was_worker) const {
  if (was_worker != were_workers_) return std::nullopt;
  const auto found = taken_.find(number);
  return found == taken_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace train
