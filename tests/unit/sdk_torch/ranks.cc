#include "tests/unit/sdk_torch/ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "tests/unit/sdk_torch/fake_session.h"

namespace train::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Port {
  int fd = -1;
  int number = 0;
};

Port bind_port() {
  Port port;
  port.fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(port.fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(port.fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no port on the loopback interface");
  }
  port.number = ntohs(address.sin_port);
  return port;
}

[[noreturn]] void run_rank(int rank, int world_size, const Port& port, int output,
                           const std::function<std::string(int)>& body) {
  sdk::WorkerInfo& info = fake_worker();
  info.world_size = info.local_world_size = world_size;
  info.rank = info.local_rank = rank;
  info.master_port = port.number;
  info.collective_timeout = std::chrono::seconds(30);
  if (rank == 0) {
    info.master_listen_fd = port.fd;
  } else {
    ::close(port.fd);
  }
  std::string text;
  int code = 0;
  try {
    text = body(rank);
  } catch (const std::exception& error) {
    text = std::string("error: ") + error.what();
    code = 1;
  }
  if (::write(output, text.data(), text.size()) != static_cast<ssize_t>(text.size())) code = 2;
  std::exit(code);  // ends like a worker, with the group's teardown
}

// Read until the rank's end of the pipe closes, which happens when the rank ends.
std::string read_until_end(int fd, Clock::time_point deadline) {
  std::string text;
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) == 0)
      return text + " (deadline passed)";
    char buffer[4096];
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace

std::vector<RankEnd> run_ranks(int world_size, const std::function<std::string(int rank)>& body,
                               std::chrono::seconds deadline) {
  const Port port = bind_port();
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < world_size; ++rank) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      for (const int other : pipes) ::close(other);
      run_rank(rank, world_size, port, ends[1], body);
    }
    ::close(ends[1]);
    pids.push_back(pid);
    pipes.push_back(ends[0]);
  }
  ::close(port.fd);
  const auto until = Clock::now() + deadline;
  std::vector<RankEnd> found(pids.size());
  for (std::size_t i = 0; i < pids.size(); ++i) {
    found[i].result = read_until_end(pipes[i], until);
    ::close(pipes[i]);
    if (Clock::now() >= until) ::kill(pids[i], SIGKILL);
    int status = 0;
    ::waitpid(pids[i], &status, 0);
    if (WIFEXITED(status)) found[i].exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) found[i].signal = WTERMSIG(status);
  }
  return found;
}

std::vector<std::string> results(const std::vector<RankEnd>& ends) {
  std::vector<std::string> texts;
  for (const RankEnd& end : ends) {
    texts.push_back(end.exit_code == 0 ? end.result
                                       : "exit " + std::to_string(end.exit_code) + " signal " +
                                             std::to_string(end.signal) + ": " + end.result);
  }
  return texts;
}

}  // namespace train::testing
