#include "daemon/supervisor/processes/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/process/v2/posix/default_launcher.hpp>
#include <boost/process/v2/process.hpp>
#include <optional>
#include <sstream>

#include "daemon/supervisor/processes/adopted.h"
#include "lib/base/open_files.h"
#include "lib/net/within.h"

namespace train {
namespace {

namespace process = boost::process::v2;

constexpr Duration kLookAgainEvery = milliseconds(50);  // for a process that cannot be watched

// What the child does between fork and exec: only calls that are safe there.
struct ChildSetup {
  const SpawnRequest& request;
  pid_t parent;
  std::vector<std::string> join;  // files of its cgroup, into which it writes "0"

  /// Set up the child. Return 0, or errno.
  int run() const {
    ::setsid();
    for (const std::string& file : join) {
      const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0 || ::write(fd, "0", 1) != 1) return errno;
      ::close(fd);
    }
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return errno;
    ::dup2(null, STDIN_FILENO);
    ::dup2(request.stdout_fd < 0 ? null : request.stdout_fd, STDOUT_FILENO);
    ::dup2(request.stderr_fd < 0 ? null : request.stderr_fd, STDERR_FILENO);
    // This includes the descriptors that we were started with ourselves.
    ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    for (int fd : request.inherit_fds) ::fcntl(fd, F_SETFD, 0);
    restore_open_files();
    if (const int error = apply_rules(request.rules); error != 0) return error;
    // Until exec, memory holds what is ours: the change of the user keeps that user from reading
    // it, but also us from changing our oom_score_adj. It clears PDEATHSIG.
    if (request.account)
      if (const int error = take_rights(*request.account); error != 0) return error;
    if (request.die_with_parent) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
    }
    if (!request.working_dir.empty() && ::chdir(request.working_dir.c_str()) != 0) return errno;
    return 0;
  }

  // ---- an initializer of Boost.Process

  template <class Launcher>
  process::error_code on_setup(Launcher& launcher, const process::filesystem::path&,
                               const char* const*&) {
    for (int fd : request.inherit_fds) launcher.fd_whitelist.push_back(fd);
    return {};
  }
  template <class Launcher>
  process::error_code on_exec_setup(Launcher&, const process::filesystem::path&,
                                    const char* const*&) {
    return {run(), boost::system::system_category()};
  }
  // Never leave through exit(): that would run the parent's atexit handlers in the child.
  template <class Launcher>
  void on_exec_error(Launcher&, const process::filesystem::path&, const char* const*&,
                     const process::error_code&) {
    ::_exit(127);
  }
};

/// The words of a child's argv or environment, as execve() takes them.
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    pointers_.reserve(words_.size() + 1);
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  char* const* data() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

Words environment_of(const SpawnRequest& request) {
  std::vector<std::string> words;
  words.reserve(request.env.size());
  for (const auto& [name, value] : request.env) words.push_back(name + "=" + value);
  return Words(std::move(words));
}

/// Start a child directly in its cgroup (clone3(2); Linux 5.7, cgroup v2). A child that moves
/// itself there waits until each CPU has been through the scheduler, 10 to 20 ms. Return nothing if
/// the kernel or a sandbox does not let us, or if the program does not start: the usual way then
/// reports why.
std::optional<pid_t> spawn_into_cgroup(const SpawnRequest& request, const std::string& executable,
                                       const Words& env) {
  const int folder = ::open(request.cgroup->path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return std::nullopt;
  const Words argv(request.argv);
  const ChildSetup setup{request, ::getpid(), request.cgroup->limit_paths()};
  int alive[2];  // exec closes the child's end; a byte from it means that exec failed
  if (::pipe2(alive, O_CLOEXEC) != 0) {
    ::close(folder);
    return std::nullopt;
  }
  clone_args how{};
  how.flags = CLONE_INTO_CGROUP;
  how.exit_signal = SIGCHLD;
  how.cgroup = static_cast<__u64>(folder);
  const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
  if (child == 0) {
    if (setup.run() == 0) ::execve(executable.c_str(), argv.data(), env.data());
    [[maybe_unused]] const auto said = ::write(alive[1], "x", 1);
    ::_exit(127);
  }
  ::close(folder);
  ::close(alive[1]);
  char failed = 0;
  ssize_t count = 0;
  while (child > 0 && (count = ::read(alive[0], &failed, 1)) < 0 && errno == EINTR) {
  }
  ::close(alive[0]);
  if (child < 0) return std::nullopt;
  if (count == 0) return child;
  ::waitpid(child, nullptr, 0);
  return std::nullopt;
}

Result<std::string> check_executable(const std::string& path, const std::string& shown) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return Error{Errc::NotFound, fmt::format("the command '{}' is not found ({})", shown, path),
                 "check `command` and `working_dir`; the path is taken on each node"};
  }
  if (!S_ISREG(status.st_mode) || ::access(path.c_str(), X_OK) != 0) {
    return Error{Errc::Permission,
                 fmt::format("the command '{}' is not executable ({})", shown, path),
                 "chmod +x, or name its interpreter"};
  }
  return path;
}

/// Return what makes the start of a program too large for Linux.
std::string largest_of(const SpawnRequest& request) {
  std::string name = "the command";
  std::size_t size = 0, all = 0;
  for (const std::string& word : request.argv) {
    size = std::max(size, word.size());
    all += word.size();
  }
  for (const auto& [variable, value] : request.env) {
    all += variable.size() + value.size();
    if (variable.size() + value.size() <= size) continue;
    name = variable;
    size = variable.size() + value.size();
  }
  return fmt::format(
      "a variable or a word of the command may have 128 KiB, and all together a quarter of the "
      "limit of the stack (ulimit -s): these have {} bytes, {} of them in {}",
      all, size, name);
}

Result<std::string> find_executable(const SpawnRequest& request) {
  const auto path = request.env.find("PATH");
  return find_program(request.argv.front(), request.working_dir,
                      path == request.env.end() ? kDefaultPath : path->second);
}

}  // namespace

Result<std::string> find_program(const std::string& name, const std::string& working_dir,
                                 const std::string& path) {
  if (name.find('/') != std::string::npos) {
    return check_executable(
        name.front() == '/' ? name
                            : fmt::format("{}/{}", working_dir.empty() ? "." : working_dir, name),
        name);
  }
  std::istringstream folders(path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    struct stat status {};
    if (::stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return Error{Errc::NotFound, fmt::format("the command '{}' is not in PATH", name),
               "give its path, or set PATH in `env`"};
}

Result<pid_t> spawn_process(asio::any_io_executor executor, const SpawnRequest& request) {
  if (request.argv.empty()) return Error{Errc::InvalidArgument, "the command is empty"};
  struct stat status {};
  if (!request.working_dir.empty() &&
      (::stat(request.working_dir.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))) {
    return Error{Errc::NotFound,
                 fmt::format("the working directory '{}' does not exist", request.working_dir),
                 "it must exist on every node"};
  }
  TRY(const std::string executable, find_executable(request));
  TRY_VOID(check_limits(request.rules));

  const Words env = environment_of(request);
  if (request.cgroup) {
    if (const auto pid = spawn_into_cgroup(request, executable, env)) {
      note_own_child(*pid);
      return *pid;
    }
  }
  process::posix::default_launcher launcher;
  launcher.env = env.data();
  process::error_code ec;
  const std::vector<std::string> arguments(request.argv.begin() + 1, request.argv.end());
  std::vector<std::string> join;
  if (request.cgroup) {
    join = request.cgroup->limit_paths();
    join.push_back(request.cgroup->procs_path());
  }
  auto child = launcher(executor, ec, process::filesystem::path(executable), arguments,
                        ChildSetup{request, ::getpid(), std::move(join)});
  if (ec) {
    Error error = system_error(ec.value(), fmt::format("starting '{}'", request.argv.front()));
    if (ec.value() == ENOEXEC)
      error.hint = "the file has no #! line and is not an executable for this machine";
    if (ec.value() == E2BIG) error.hint = largest_of(request);
    return error;
  }
  const auto pid = static_cast<pid_t>(child.id());
  note_own_child(pid);
  child.detach();  // we reap it ourselves, to tell exit codes from signals
  return pid;
}

Result<PipedProcess> spawn_piped(asio::any_io_executor executor, SpawnRequest request) {
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  const auto close_all = [&](std::initializer_list<int> fds) {
    for (const int fd : fds)
      if (fd >= 0) ::close(fd);
  };
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    const Error error = system_error(errno, "making the output pipes");
    close_all({out[0], out[1]});
    return error;
  }
  request.stdout_fd = out[1];
  request.stderr_fd = err[1];
  const Result<pid_t> pid = spawn_process(std::move(executor), request);
  close_all({out[1], err[1]});
  if (pid) return PipedProcess{*pid, out[0], err[0]};
  close_all({out[0], err[0]});
  return pid.error();
}

Task<WaitStatus> wait_for_end(asio::any_io_executor executor, pid_t pid) {
  std::optional<asio::posix::stream_descriptor> watcher;
  for (;;) {
    // Without a free descriptor, we notice its end later, but we do notice it.
    if (!watcher) {
      const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
      if (fd >= 0) watcher.emplace(executor, fd);
    }
    int status = 0;
    const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
    // While a thread of ours takes its stacks, waitpid() shows that it stands still.
    if (reaped == pid && !WIFSTOPPED(status)) {
      forget_own_child(pid);
      if (WIFSIGNALED(status)) co_return WaitStatus{true, WTERMSIG(status), WCOREDUMP(status) != 0};
      co_return WaitStatus{false, WEXITSTATUS(status), false};
    }
    if (reaped < 0 && errno != EINTR)
      co_return system_error(errno, fmt::format("reaping process {}", pid));
    if (!watcher) {
      CO_TRY_VOID(co_await pause_for(kLookAgainEvery));
      continue;
    }
    const auto [error] = co_await watcher->async_wait(asio::posix::stream_descriptor::wait_read,
                                                      asio::as_tuple(asio::use_awaitable));
    if (error) co_return Error{Errc::Cancelled, "waiting for a process was cancelled"};
  }
}

}  // namespace train
