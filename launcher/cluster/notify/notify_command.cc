#include "launcher/cluster/notify/notify_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "lib/base/file_descriptor.h"
#include "lib/base/spawn.h"
#include "lib/base/utf8.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

constexpr Duration kLookEvery = milliseconds(100);  // at the deadline, which may move
constexpr std::size_t kOutputBytesMax = 1u << 10;   // the end of it, for the message

struct Child {
  pid_t pid = 0;
  FileDescriptor handle, output;
};

/// Return a file that holds the input: a program that reads nothing makes nobody wait.
Result<FileDescriptor> input_file(std::string_view input) {
  FileDescriptor file(::memfd_create("notification", MFD_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "making a file in memory");
  TRY_VOID(write_all(file.get(), input, "a file in memory"));
  if (::lseek(file.get(), 0, SEEK_SET) < 0) return system_error(errno, "reading a file in memory");
  return file;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<Child> start(const NotifyCommand& command) {
  TRY(const FileDescriptor input, input_file(command.input));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  Child child;
  child.output.reset(ends[0]);
  const FileDescriptor writing(ends[1]);
  ::fcntl(child.output.get(), F_SETFL, O_NONBLOCK);

  SpawnActions files;
  ::posix_spawn_file_actions_addchdir_np(&files.actions, command.folder.c_str());
  ::posix_spawn_file_actions_adddup2(&files.actions, input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, writing.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, writing.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&files.actions, STDERR_FILENO + 1);
  SpawnAttributes how;
  how.set_flags(POSIX_SPAWN_SETPGROUP);  // Ctrl-C is for train-run
  std::vector<std::string> argv = command.argv, variables;
  for (const auto& [name, value] : command.environment) variables.push_back(name + "=" + value);
  const int error =
      ::posix_spawnp(&child.pid, command.argv.front().c_str(), &files.actions, &how.attributes,
                     pointers_to(argv).data(), pointers_to(variables).data());
  if (error != 0) return Error{Errc::Io, fmt::format("cannot be started: {}", ::strerror(error))};
  child.handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  return child;
}

/// Read what there is; keep its end. Return false once there will be no more.
bool read_output(const FileDescriptor& pipe, std::string& kept) {
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t size = ::read(pipe.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size < 0 && errno == EAGAIN;
    kept.append(piece.data(), static_cast<std::size_t>(size));
    if (kept.size() > kOutputBytesMax) kept.erase(0, kept.size() - kOutputBytesMax);
  }
}

/// Wait until the program has ended. Return false if the deadline was first.
bool wait_for(Child& child, const std::function<TimePoint()>& deadline, std::string& output) {
  bool open = true;
  for (;;) {
    pollfd watched[] = {{child.handle.get(), POLLIN, 0}, {child.output.get(), POLLIN, 0}};
    const TimePoint end = deadline(), now = std::chrono::steady_clock::now();
    if (end <= now) return false;
    const auto left = std::chrono::ceil<milliseconds>(std::min<Duration>(kLookEvery, end - now));
    const int wait = static_cast<int>(left.count());
    (void)::poll(watched, open ? 2 : 1, wait);
    open = open && read_output(child.output, output);
    if ((watched[0].revents & POLLIN) != 0) return true;
  }
}

std::string last_line(std::string_view output) {
  while (output.ends_with('\n') || output.ends_with('\r')) output.remove_suffix(1);
  return utf8_text(output.substr(output.rfind('\n') + 1), kOutputBytesMax);
}

}  // namespace

Result<Unit> run_notify_command(const NotifyCommand& command,
                                const std::function<TimePoint()>& deadline) {
  TRY(Child child, start(command));
  std::string output;
  const bool ended = wait_for(child, deadline, output);
  if (!ended) ::kill(-child.pid, SIGKILL);
  siginfo_t end{};
  while (::waitid(P_PID, static_cast<id_t>(child.pid), &end, WEXITED) != 0 && errno == EINTR) {
  }
  (void)read_output(child.output, output);
  if (ended && end.si_code == CLD_EXITED && end.si_status == 0) return Unit{};
  const std::string how = !ended ? "did not end in time and was killed"
                          : end.si_code == CLD_EXITED
                              ? fmt::format("ended with {}", end.si_status)
                              : fmt::format("was killed by signal {}", end.si_status);
  const std::string said = last_line(output);
  return Error{ended ? Errc::Io : Errc::Timeout, said.empty() ? how : how + ": " + said};
}

}  // namespace train
