#include "lib/stacks/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/spawn.h"

namespace train {
namespace {

// Killed, it ends at once, unless storage holds it: then whoever reaps orphans here reaps it.
constexpr Duration kKillWait = seconds{1};

FileDescriptor process_handle(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void pass_on(SpawnActions& files, int ours, int theirs, int flags) {
  if (ours >= 0)
    ::posix_spawn_file_actions_adddup2(&files.actions, ours, theirs);
  else
    ::posix_spawn_file_actions_addopen(&files.actions, theirs, "/dev/null", flags, 0);
}

}  // namespace

/// Another part of this process may have reaped the child, as a supervisor reaps children that it
/// does not know: then its end has no status.
struct ChildProcess::End {
  enum class Kind { Well, Badly, Unknown, None };
  Kind kind = Kind::None;
  std::string how{};
};

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

Result<ChildProcess> ChildProcess::start(std::vector<std::string> words, const ChildFiles& files,
                                         bool own_group) {
  SpawnActions actions;
  pass_on(actions, files.input, STDIN_FILENO, O_RDONLY);
  pass_on(actions, files.output, STDOUT_FILENO, O_WRONLY);
  pass_on(actions, files.errors, STDERR_FILENO, O_WRONLY);
  int last = STDERR_FILENO;
  if (files.third >= 0) pass_on(actions, files.third, ++last, O_WRONLY);
  ::posix_spawn_file_actions_addclosefrom_np(&actions.actions, last + 1);
  SpawnAttributes how;
  if (own_group) how.set_flags(POSIX_SPAWN_SETPGROUP);  // the new group has the child's number
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  char* const environment[] = {nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, words.front().c_str(), &actions.actions, &how.attributes,
                                  arguments.data(), environment);
  if (error != 0) return system_error(error, "starting '" + words.front() + "'");
  return ChildProcess(pid, process_handle(pid), own_group);
}

ChildProcess::~ChildProcess() {
  if (pid_ != 0) (void)wait_or_kill(TimePoint{});
}

ChildProcess::End ChildProcess::wait(TimePoint deadline) const {
  pollfd ended{handle_.get(), POLLIN, 0};
  while (handle_.get() >= 0) {
    const int count = ::poll(&ended, 1, milliseconds_until(deadline));
    if (count == 0) return {};
    if (count > 0 || errno != EINTR) break;
  }
  if (own_group_) ::kill(-pid_, SIGKILL);  // not reaped yet: the number is still that of the group
  siginfo_t end{};
  const int options = WEXITED | __WNOTHREAD;  // our child, not a thread that others trace
  if (::waitid(P_PID, static_cast<id_t>(pid_), &end, options) != 0) return {End::Kind::Unknown, ""};
  if (end.si_code == CLD_EXITED && end.si_status == 0) return {End::Kind::Well, ""};
  const char* signal = end.si_code == CLD_EXITED ? nullptr : ::sigabbrev_np(end.si_status);
  if (signal != nullptr) return {End::Kind::Badly, fmt::format("was killed by SIG{}", signal)};
  return {End::Kind::Badly, fmt::format("ended with {}", end.si_status)};
}

std::string ChildProcess::wait_or_kill(TimePoint deadline) {
  const End end = wait(deadline);
  if (end.kind == End::Kind::None) {
    if (own_group_) ::kill(-pid_, SIGKILL);
    ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
    (void)wait(std::chrono::steady_clock::now() + kKillWait);
  }
  pid_ = 0;
  return end.kind == End::Kind::None ? "did not end in time and was killed" : end.how;
}

}  // namespace train
