#include "daemon/server/dial_stdio.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "daemon/server/user_daemon.h"
#include "lib/base/print.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

constexpr std::size_t kBufferBytes = 64u << 10;

/// One direction: what has been read and not yet written. It reads nothing more until then.
struct Flow {
  int from, to;
  std::array<char, kBufferBytes> buffer{};
  std::size_t begin = 0, end = 0;
  bool ended = false;   // there is no more to read
  bool broken = false;  // nobody reads

  bool empty() const { return begin == end; }
  bool over() const { return broken || (ended && empty()); }
  void read() {
    const ssize_t size = ::read(from, buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    ended = size <= 0;
    begin = 0;
    end = size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  void write() {
    const ssize_t size = ::write(to, buffer.data() + begin, end - begin);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size < 0)
      broken = true;
    else
      begin += static_cast<std::size_t>(size);
  }
};

void set_non_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

std::string dial_greeting(const char* ssh_connection) {
  std::istringstream words(ssh_connection == nullptr ? "" : ssh_connection);
  std::string client, client_port, address;
  words >> client >> client_port >> address;
  const bool fits = !address.empty() && address.size() <= 64 &&
                    address.find_first_not_of("0123456789abcdefABCDEF.:%") == std::string::npos;
  return fmt::format("traind-dial 1 {}\n", fits ? address : "-");
}

Result<Unit> join_streams(int in, int out, int socket) {
  for (const int fd : {in, out, socket}) set_non_blocking(fd);
  Flow up{.from = in, .to = socket}, down{.from = socket, .to = out};
  while (!up.over() && !down.over()) {
    const auto watch = [](int fd, bool wanted, short event) {
      return pollfd{wanted ? fd : -1, event, 0};
    };
    std::array<pollfd, 4> watched{watch(in, up.empty(), POLLIN),
                                  watch(socket, !up.empty(), POLLOUT),
                                  watch(socket, down.empty(), POLLIN),
                                  // Without an event, it still tells that nobody reads any more.
                                  pollfd{out, static_cast<short>(down.empty() ? 0 : POLLOUT), 0}};
    if (::poll(watched.data(), watched.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return system_error(errno, "waiting for the launcher and for traind");
    }
    if (watched[0].revents != 0) up.read();
    if (watched[1].revents != 0) up.write();
    if (watched[2].revents != 0) down.read();
    if ((watched[3].revents & POLLOUT) != 0) down.write();
    if ((watched[3].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) down.broken = true;
  }
  return Unit{};
}

int run_dial_stdio(const std::string& runtime_dir) {
  ::signal(SIGPIPE, SIG_IGN);
  const auto fail = [](const Error& error, int code) {
    print_error("traind", error);
    return code;
  };
  const auto traind = connect_user_daemon(runtime_dir, kUserDaemonLimit);
  if (!traind) return fail(traind.error(), traind.error().code == Errc::Unavailable ? 69 : 78);
  const auto greeted =
      write_all(STDOUT_FILENO, dial_greeting(std::getenv("SSH_CONNECTION")), "stdout");
  if (!greeted) return fail(greeted.error(), 74);
  const auto joined = join_streams(STDIN_FILENO, STDOUT_FILENO, traind->get());
  return joined ? 0 : fail(joined.error(), 74);
}

}  // namespace train
