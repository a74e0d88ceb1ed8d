#include "sdk/trainer/driver_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <train/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace train::trainer {
namespace {

constexpr std::size_t kErrorsBytesMax = 64u << 10;
constexpr std::size_t kLineBytesMax = 8u << 20;  // of one event
constexpr int kDriverFd = 3;                     // where the child finds its end of the socket

[[noreturn]] void fail(const std::string& what, int error) {
  throw Failure(error == ENOENT   ? "not_found"
                : error == EACCES ? "permission"
                                  : "io",
                fmt::format("{}: {}", what, std::strerror(error)));
}

struct Actions {
  posix_spawn_file_actions_t actions;
  Actions() { ::posix_spawn_file_actions_init(&actions); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
};

/// Closes a descriptor that the child has by now.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

DriverProcess::DriverProcess(const Options& options) : show_output_(options.show_output) {
  int sockets[2], errors[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    fail("making a socket for train-run", errno);
  socket_ = sockets[0];
  const Descriptor theirs{sockets[1]};
  if (::pipe2(errors, O_CLOEXEC) != 0) {
    const int why = errno;
    ::close(socket_);
    fail("making a pipe for train-run", why);
  }
  stderr_ = errors[0];
  const Descriptor their_errors{errors[1]};

  Actions child;
  ::posix_spawn_file_actions_adddup2(&child.actions, errors[1], STDERR_FILENO);
  if (!options.show_output)
    ::posix_spawn_file_actions_addopen(&child.actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  // Last: the descriptors above may be 3 themselves. dup2 of 3 onto itself clears its flag, too.
  ::posix_spawn_file_actions_adddup2(&child.actions, sockets[1], kDriverFd);
  std::vector<std::string> words = options.words;
  words.insert(words.begin() + 2, {"--driver-fd", std::to_string(kDriverFd)});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int failed = ::posix_spawnp(&pid_, argv[0], &child.actions, nullptr, argv.data(), environ);
  if (failed != 0) {
    ::close(socket_);
    ::close(stderr_);
    fail(fmt::format("cannot start '{}'", words.front()), failed);
  }
  errors_thread_ = std::thread([this] { read_errors(); });
}

DriverProcess::~DriverProcess() {
  leave();
  wait();
  ::close(stderr_);
}

// Pass on what the program writes, whatever this process's other threads do: it must never wait for
// room in the pipe.
void DriverProcess::read_errors() {
  for (;;) {
    const bool ended = ended_;
    pollfd polled = {stderr_, POLLIN, 0};
    const int ready = ::poll(&polled, 1, ended ? 0 : 50);
    if (ready == 0 && ended) return;  // somebody who has inherited the pipe may keep it open
    if (ready <= 0) continue;
    char buffer[16 << 10];
    const ssize_t count = ::read(stderr_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    if (show_output_) {
      const ssize_t ignored = ::write(STDERR_FILENO, buffer, static_cast<std::size_t>(count));
      (void)ignored;
    }
    errors_.append(buffer, static_cast<std::size_t>(count));
    if (errors_.size() > kErrorsBytesMax) errors_.erase(0, errors_.size() - kErrorsBytesMax);
  }
}

std::optional<std::string> DriverProcess::next_line(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (over_) {
      pending_.clear();  // of a train-run that died in the middle of a line
      return std::nullopt;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    pollfd polled = {socket_, POLLIN, 0};
    if (::poll(&polled, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[64 << 10];
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) pending_.append(buffer, static_cast<std::size_t>(count));
    over_ = count <= 0 || pending_.size() > kLineBytesMax;
  }
}

void DriverProcess::send(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (socket_ < 0) return;
  (void)::send(socket_, line.data(), line.size(), MSG_NOSIGNAL);
}

void DriverProcess::leave() {
  const std::lock_guard lock(mutex_);
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  over_ = true;
  pending_.clear();
}

int DriverProcess::wait() {
  if (code_) return *code_;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended_ = true;
  errors_thread_.join();
  return *code_;
}

}  // namespace train::trainer
