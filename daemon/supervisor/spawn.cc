#include "daemon/supervisor/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/process/v2/posix/default_launcher.hpp>
#include <boost/process/v2/process.hpp>
#include <sstream>

namespace train {
namespace {

namespace process = boost::process::v2;

// What the child does between fork and exec: only calls that are safe there.
struct ChildSetup {
  const SpawnRequest& request;
  pid_t parent;

  template <class Launcher>
  process::error_code on_setup(Launcher& launcher, const process::filesystem::path&,
                               const char* const*&) {
    for (int fd : request.inherit_fds) launcher.fd_whitelist.push_back(fd);
    return {};
  }

  template <class Launcher>
  process::error_code on_exec_setup(Launcher&, const process::filesystem::path&,
                                    const char* const*&) {
    ::setsid();
    if (request.die_with_parent) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);  // it died before the line above
    }
    if (!request.cgroup_procs.empty()) {
      const int fd = ::open(request.cgroup_procs.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0 || ::write(fd, "0", 1) != 1) return last_error();
      ::close(fd);
    }
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return last_error();
    ::dup2(null, STDIN_FILENO);
    ::dup2(request.stdout_fd < 0 ? null : request.stdout_fd, STDOUT_FILENO);
    ::dup2(request.stderr_fd < 0 ? null : request.stderr_fd, STDERR_FILENO);
    for (int fd : request.inherit_fds) ::fcntl(fd, F_SETFD, 0);
    if (!request.working_dir.empty() && ::chdir(request.working_dir.c_str()) != 0)
      return last_error();
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    return {};
  }

  // Never through exit(): that would run the parent's atexit handlers in the child.
  template <class Launcher>
  void on_exec_error(Launcher&, const process::filesystem::path&, const char* const*&,
                     const process::error_code&) {
    ::_exit(127);
  }

  static process::error_code last_error() { return {errno, boost::system::system_category()}; }
};

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

Result<std::string> find_executable(const SpawnRequest& request) {
  const std::string& name = request.argv.front();
  if (name.find('/') != std::string::npos) {
    return check_executable(
        name.front() == '/'
            ? name
            : fmt::format("{}/{}", request.working_dir.empty() ? "." : request.working_dir, name),
        name);
  }
  const auto path = request.env.find("PATH");
  std::istringstream folders(path == request.env.end() ? "/usr/local/bin:/usr/bin:/bin"
                                                       : path->second);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    struct stat status {};
    if (::stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return Error{Errc::NotFound, fmt::format("the command '{}' is in no folder of PATH", name),
               "give its path, or set PATH in `env`"};
}

}  // namespace

Result<pid_t> spawn_process(asio::any_io_executor executor, const SpawnRequest& request) {
  if (request.argv.empty()) return Error{Errc::InvalidArgument, "the command is empty"};
  struct stat status {};
  if (!request.working_dir.empty() &&
      (::stat(request.working_dir.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))) {
    return Error{Errc::NotFound,
                 fmt::format("the working directory '{}' is not there", request.working_dir),
                 "it must exist on every node"};
  }
  TRY(const std::string executable, find_executable(request));

  std::vector<std::string> env_texts;
  env_texts.reserve(request.env.size());
  for (const auto& [name, value] : request.env) env_texts.push_back(name + "=" + value);
  std::vector<const char*> env;
  env.reserve(env_texts.size() + 1);
  for (const std::string& text : env_texts) env.push_back(text.c_str());
  env.push_back(nullptr);

  process::posix::default_launcher launcher;
  launcher.env = env.data();
  process::error_code ec;
  const std::vector<std::string> arguments(request.argv.begin() + 1, request.argv.end());
  auto child = launcher(executor, ec, process::filesystem::path(executable), arguments,
                        ChildSetup{request, ::getpid()});
  if (ec) {
    Error error = system_error(ec.value(), fmt::format("starting '{}'", request.argv.front()));
    if (ec.value() == ENOEXEC)
      error.hint = "the file has no #! line and is no program for this machine";
    return error;
  }
  const auto pid = static_cast<pid_t>(child.id());
  child.detach();  // we reap it ourselves: exit code and signal must stay apart
  return pid;
}

Task<WaitStatus> wait_for_end(asio::any_io_executor executor, pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) co_return system_error(errno, fmt::format("watching process {}", pid));
  asio::posix::stream_descriptor watcher(executor, fd);
  for (;;) {
    int status = 0;
    const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
    if (reaped == pid) {
      if (WIFSIGNALED(status)) co_return WaitStatus{true, WTERMSIG(status), WCOREDUMP(status) != 0};
      co_return WaitStatus{false, WEXITSTATUS(status), false};
    }
    if (reaped < 0 && errno != EINTR)
      co_return system_error(errno, fmt::format("reaping process {}", pid));
    const auto [error] = co_await watcher.async_wait(asio::posix::stream_descriptor::wait_read,
                                                     asio::as_tuple(asio::use_awaitable));
    if (error) co_return Error{Errc::Cancelled, "waiting for a process was cancelled"};
  }
}

}  // namespace train
