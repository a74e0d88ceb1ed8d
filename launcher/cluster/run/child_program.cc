#include "launcher/cluster/run/child_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launcher/report/failure_text.h"
#include "lib/base/open_files.h"
#include "lib/base/spawn.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr Duration kLookEvery = milliseconds(100);  // at the deadline, which may move

/// Return the file to execute, as the program's own PATH has it.
std::string file_of(const ChildProgram::Options& options) {
  const std::string& name = options.argv.front();
  if (name.find('/') != std::string::npos) return name;
  const auto path = options.environment.find("PATH");
  std::string_view rest = "/usr/bin:/bin";
  if (path != options.environment.end()) rest = path->second;
  while (!rest.empty()) {
    const std::string folder(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    struct stat status {};
    const std::string at = file.front() == '/' ? file : options.folder + "/" + file;
    if (::stat(at.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::access(at.c_str(), X_OK) == 0)
      return file;
  }
  return name;  // exec says that there is none
}

/// What the child needs between fork and exec, where it may not allocate.
struct ChildPlan {
  const char* file;
  char* const* argv;
  char* const* environment;
  const char* folder;
  int input, output, errors, failure;
  bool dies_with_us;
  pid_t parent;
};

[[noreturn]] void become_program(const ChildPlan& how) {
  sigset_t none;
  ::sigemptyset(&none);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);
  if (how.dies_with_us) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  restore_open_files();
  (void)::syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  const bool good = (!how.dies_with_us || ::getppid() == how.parent) &&
                    ::dup2(how.input, STDIN_FILENO) >= 0 &&
                    ::dup2(how.output, STDOUT_FILENO) >= 0 &&
                    ::dup2(how.errors, STDERR_FILENO) >= 0 && ::chdir(how.folder) == 0;
  if (good) ::execve(how.file, how.argv, how.environment);
  const int why = errno;
  (void)!::write(how.failure, &why, sizeof why);
  ::_exit(127);
}

}  // namespace

Result<ChildProgram> ChildProgram::start(const Options& options) {
  std::array<int, 2> ends{}, failing{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  ChildProgram child;
  child.output_.reset(ends[0]);
  const FileDescriptor writing(ends[1]);
  if (::pipe2(failing.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  const FileDescriptor failure(failing[0]);
  FileDescriptor telling(failing[1]);
  ::fcntl(child.output_.get(), F_SETFL, O_NONBLOCK);
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));

  std::vector<std::string> words = options.argv, variables;
  for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers_to(words), environment = pointers_to(variables);
  const std::string file = file_of(options), folder = options.folder.empty() ? "." : options.folder;
  const ChildPlan how{.file = file.c_str(),
                      .argv = argv.data(),
                      .environment = environment.data(),
                      .folder = folder.c_str(),
                      .input = options.input >= 0 ? options.input : nothing.get(),
                      .output = options.answers >= 0 ? options.answers : writing.get(),
                      .errors = writing.get(),
                      .failure = telling.get(),
                      .dies_with_us = options.dies_with_us,
                      .parent = ::getpid()};
  child.pid_ = ::fork();
  if (child.pid_ == 0) become_program(how);
  if (child.pid_ < 0) return system_error(errno, "starting a process");
  ::setpgid(child.pid_, child.pid_);  // whoever is first
  child.handle_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  telling.reset();
  int why = 0;
  ssize_t told = 0;
  while ((told = ::read(failure.get(), &why, sizeof why)) < 0 && errno == EINTR) {
  }
  if (told != sizeof why) return child;
  (void)::waitpid(child.pid_, nullptr, 0);
  return Error{why == ENOENT                   ? Errc::NotFound
               : why == EACCES || why == EPERM ? Errc::Permission
                                               : Errc::Io,
               fmt::format("cannot be started: {}", ::strerror(why))};
}

/// Read what there is. Return false once there will be no more.
bool ChildProgram::read_output(const std::function<void(std::string_view)>& output) {
  std::array<char, 16u << 10> piece;
  for (int pieces = 0; pieces < 64; ++pieces) {  // then look at the time again
    const ssize_t size = ::read(output_.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size < 0 && errno == EAGAIN;
    output({piece.data(), static_cast<std::size_t>(size)});
  }
  return true;
}

/// Return whether it has ended. Needs no pidfd, which cannot be had if descriptors are short.
bool ChildProgram::has_ended() const {
  siginfo_t end{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) != 0)
    return errno == ECHILD;  // reaped
  return end.si_pid == pid_;
}

bool ChildProgram::look(const std::function<void(std::string_view)>& output) {
  const bool ended = has_ended();  // first: all its output is there then
  open_ = open_ && read_output(output);
  return ended;
}

bool ChildProgram::wait(const std::function<TimePoint()>& until,
                        const std::function<void(std::string_view)>& output) {
  for (;;) {
    pollfd watched[] = {{handle_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}};
    const TimePoint end = until(), now = std::chrono::steady_clock::now();
    if (end <= now) return false;
    const auto left = std::chrono::ceil<milliseconds>(std::min<Duration>(kLookEvery, end - now));
    (void)::poll(watched, open_ ? 2 : 1, static_cast<int>(left.count()));
    const bool ended = has_ended();
    open_ = open_ && read_output(output);
    if (ended) return true;
  }
}

void ChildProgram::signal(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

ChildProgram::End ChildProgram::reap(const std::function<void(std::string_view)>& output) {
  siginfo_t end{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED) != 0 && errno == EINTR) {
  }
  if (open_) (void)read_output(output);
  return {.killed = end.si_code != CLD_EXITED, .status = end.si_status};
}

std::string end_text(const ChildProgram::End& end) {
  if (!end.killed) return fmt::format("exited with {}", end.status);
  return "was killed by " + signal_name(end.status);
}

void LastOutput::add(std::string_view data) {
  constexpr std::size_t kBytesMax = kLinesMax * kLineBytesMax;
  data = data.substr(data.size() - std::min(data.size(), kBytesMax));
  kept_.append(data);
  if (kept_.size() > kBytesMax) kept_.erase(0, kept_.size() - kBytesMax);
}

std::vector<std::string> LastOutput::lines() const {
  std::vector<std::string> lines;
  for (std::string_view rest = kept_; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    lines.push_back(utf8_text(line.substr(0, line.find_last_not_of(" \t\r") + 1), kLineBytesMax));
  }
  if (lines.size() > kLinesMax)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLinesMax));
  return lines;
}

std::string LastOutput::last() const {
  const auto all = lines();
  return all.empty() ? "" : all.back();
}

}  // namespace train
