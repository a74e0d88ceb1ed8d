#include "launcher/cluster/children/child_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "lib/base/open_files.h"
#include "lib/base/print.h"
#include "lib/base/spawn.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr int kDriverFd = 3;                        // where the child finds its end of the socket
constexpr std::size_t kErrorsBytesMax = 16u << 10;  // the end of what it said
constexpr std::size_t kSaidBytesMax = 1u << 10;

}  // namespace

Result<ChildRun> ChildRun::start(std::vector<std::string> words, std::vector<std::string> variables,
                                 int output) {
  std::array<int, 2> sockets{}, pipe{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    return system_error(errno, "making a socket for a child run");
  ChildRun child;
  child.socket_.reset(sockets[0]);
  const FileDescriptor theirs(sockets[1]);
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    return system_error(errno, "making a pipe for a child run");
  child.errors_.reset(pipe[0]);
  const FileDescriptor their_errors(pipe[1]);
  for (const int fd : {sockets[0], pipe[0]}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  for (std::string& word : words)
    if (word == "{FD}") word = std::to_string(kDriverFd);

  SpawnActions files;
  ::posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (output >= 0)
    ::posix_spawn_file_actions_adddup2(&files.actions, output, STDOUT_FILENO);
  else
    ::posix_spawn_file_actions_addopen(&files.actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files.actions, pipe[1], STDERR_FILENO);
  // Last: the pipe may be 3 itself.
  ::posix_spawn_file_actions_adddup2(&files.actions, sockets[1], kDriverFd);
  ::posix_spawn_file_actions_addclosefrom_np(&files.actions, kDriverFd + 1);
  SpawnAttributes how;
  how.set_flags(POSIX_SPAWN_SETPGROUP);
  const InitialOpenFiles its_limit;
  const int error =
      ::posix_spawn(&child.pid_, words.front().c_str(), &files.actions, &how.attributes,
                    pointers_to(words).data(), pointers_to(variables).data());
  if (error != 0) return system_error(error, "starting " + words.front());
  child.process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  return child;
}

std::vector<boost::json::object> ChildRun::take_events() {
  std::vector<boost::json::object> events;
  for (auto& line : lines_.take(socket_))
    if (line && line->is_object()) events.push_back(std::move(line->as_object()));
  return events;
}

void ChildRun::ask_to_stop() {
  constexpr std::string_view kStop = "{\"command\": \"stop\"}\n";
  (void)::send(socket_.get(), kStop.data(), kStop.size(), MSG_NOSIGNAL);
}

bool ChildRun::acknowledge(std::uint64_t attempt, std::uint64_t rounds) {
  const std::string line = fmt::format(R"({{"command": "acknowledge", "attempt": {}, "round": {}}})"
                                       "\n",
                                       attempt, rounds);
  return ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) > 0;
}

void ChildRun::send_signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

std::optional<ChildRun::End> ChildRun::ended() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  if (WIFEXITED(status)) return End{WEXITSTATUS(status), false};
  return End{128 + WTERMSIG(status), true};
}

void ChildRun::read_errors() {
  constexpr int kPiecesMax = 64;  // more may come for ever
  std::array<char, 4096> buffer{};
  for (int pieces = 0; pieces < kPiecesMax; ++pieces) {
    const ssize_t count = ::read(errors_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errors_.reset();
    if (count <= 0) break;
    error_text_.append(buffer.data(), static_cast<std::size_t>(count));
    if (passes_errors_on_)
      print_err("{}", Lines{std::string_view(buffer.data(), static_cast<std::size_t>(count))});
    if (error_text_.size() > kErrorsBytesMax)
      error_text_.erase(0, error_text_.size() - kErrorsBytesMax);
  }
}

std::string ChildRun::said() {
  read_errors();
  constexpr std::string_view kError = "error: ";
  const std::size_t at = error_text_.find(kError);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kError.size();
  const std::string line = error_text_.substr(begin, error_text_.find('\n', begin) - begin);
  return utf8_text(line, kSaidBytesMax);
}

}  // namespace train
