#include "lib/stacks/unwinder_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/spawn.h"
#include "lib/stacks/stacks_codec.h"

namespace train {
namespace {

// Killed, it ends at once, unless storage holds it: then whoever reaps orphans here reaps it.
constexpr Duration kKillWait = seconds{1};
constexpr std::size_t kOutputBytesMax = 4 * kStackMessageBytesMax;

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

/// Start the program with only three descriptors, no environment (libdw would ask the servers of
/// DEBUGINFOD_URLS), and default signals.
Result<pid_t> spawn(const std::string& program, const char* argument, int input, int output) {
  SpawnActions files;
  ::posix_spawn_file_actions_adddup2(&files.actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&files.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&files.actions, STDERR_FILENO + 1);
  SpawnAttributes how;
  std::string name = program, word = argument == nullptr ? "" : argument;
  char* const arguments[] = {name.data(), argument == nullptr ? nullptr : word.data(), nullptr};
  char* const environment[] = {nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), &files.actions, &how.attributes, arguments, environment);
  if (error != 0) return system_error(error, "starting '" + program + "'");
  return pid;
}

/// Wait until the child has ended. Another part of this process may have reaped it, as a supervisor
/// reaps children that it does not know: then the end has no status.
enum class ChildEnd { Well, Badly, Unknown, None };
struct EndOfChild {
  ChildEnd kind = ChildEnd::None;
  std::string how{};
};

EndOfChild wait_for_child(pid_t pid, const FileDescriptor& handle, TimePoint deadline) {
  pollfd ended{handle.get(), POLLIN, 0};
  while (handle.get() >= 0) {
    const int count = ::poll(&ended, 1, milliseconds_until(deadline));
    if (count == 0) return {};
    if (count > 0 || errno != EINTR) break;
  }
  siginfo_t end{};
  const int options = WEXITED | __WNOTHREAD;  // our child, not a thread that others trace
  if (::waitid(P_PID, static_cast<id_t>(pid), &end, options) != 0) return {ChildEnd::Unknown, ""};
  if (end.si_code == CLD_EXITED && end.si_status == 0) return {ChildEnd::Well, ""};
  const char* signal = end.si_code == CLD_EXITED ? nullptr : ::sigabbrev_np(end.si_status);
  if (signal != nullptr) return {ChildEnd::Badly, fmt::format("was killed by SIG{}", signal)};
  return {ChildEnd::Badly, fmt::format("ended with {}", end.si_status)};
}

FileDescriptor process_handle(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

/// Wait until the child has ended, and kill it at the deadline. Return what went wrong, or "".
std::string wait_or_kill(pid_t pid, const FileDescriptor& handle, TimePoint deadline) {
  const EndOfChild end = wait_for_child(pid, handle, deadline);
  if (end.kind != ChildEnd::None) return end.how;
  ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0);
  (void)wait_for_child(pid, handle, std::chrono::steady_clock::now() + kKillWait);
  return "did not end in time and was killed";
}

std::string read_whole(const FileDescriptor& file) {
  std::string text;
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  text.resize(
      std::min<std::size_t>(static_cast<std::size_t>(std::max<off_t>(size, 0)), kOutputBytesMax));
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t part =
        ::pread(file.get(), text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    filled += static_cast<std::size_t>(part);
  }
  text.resize(filled);
  return text;
}

}  // namespace

Result<FileDescriptor> memory_file(const char* name) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "making a file in memory");
  return file;
}

Result<Unit> append_to(const FileDescriptor& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(file.get(), bytes.data(), bytes.size());
    if (size < 0 && errno != EINTR) return system_error(errno, "writing to a file in memory");
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  }
  return Unit{};
}

Result<UnwinderOutput> run_unwinder(const std::string& program, const FileDescriptor& captures,
                                    TimePoint deadline) {
  TRY(const FileDescriptor output, memory_file("stacks"));
  if (::lseek(captures.get(), 0, SEEK_SET) < 0) return system_error(errno, "reading captures");
  TRY(const pid_t pid, spawn(program, nullptr, captures.get(), output.get()));
  const FileDescriptor handle = process_handle(pid);
  std::string trouble = wait_or_kill(pid, handle, deadline);
  return UnwinderOutput{.messages = read_whole(output), .trouble = std::move(trouble)};
}

Result<UnwinderStream> UnwinderStream::start(const std::string& program, const char* argument) {
  TRY(FileDescriptor output, memory_file("profile"));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error(errno, "making a socket pair");
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  TRY(const pid_t pid, spawn(program, argument, theirs.get(), output.get()));
  return UnwinderStream(pid, process_handle(pid), std::move(ours), std::move(output));
}

UnwinderStream::~UnwinderStream() {
  if (pid_ != 0) (void)wait_or_kill(pid_, handle_, TimePoint{});
}

Result<Unit> UnwinderStream::write(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t size =
        ::send(input_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return system_error(errno, "writing to the unwinder");
    pollfd writable{input_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, milliseconds_until(deadline)) == 0)
      return Error{Errc::Timeout, "the unwinder does not keep up"};
  }
  return Unit{};
}

UnwinderOutput UnwinderStream::finish(TimePoint deadline) {
  input_.reset();
  std::string trouble = wait_or_kill(std::exchange(pid_, 0), handle_, deadline);
  return {.messages = read_whole(output_), .trouble = std::move(trouble)};
}

}  // namespace train
