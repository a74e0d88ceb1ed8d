// chaos_relay CONTROL FROM=TO...: relay TCP, with one link for each pair HOST:PORT=HOST:PORT.
// CONTROL is a file with one line per link, "DELAY_MS RESETS": how long the relay holds bytes in
// each direction, and a number that resets all connections of the link when it changes. We do not
// use netem, because these kernels lack it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <list>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLookMs = 20;  // interval for checking the control file and bytes that are due
constexpr std::size_t kHeldBytesMax = 4u << 20;

sockaddr_in address_of(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(endpoint.c_str() + colon + 1)));
  if (::inet_pton(AF_INET, endpoint.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    std::fprintf(stderr, "chaos_relay: %s is no address\n", endpoint.c_str());
    std::exit(2);
  }
  return address;
}

int tcp_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

struct Link {
  sockaddr_in from{}, to{};
  int listener = -1;
  int delay_ms = 0, resets = 0;
};

// One direction: holds what was read from `from` until it is due at `to`.
struct Pipe {
  struct Held {
    Clock::time_point due;
    std::string bytes;
  };
  std::deque<Held> held;
  std::size_t held_bytes = 0;
  bool ended = false, told = false;  // `from` has closed; `to` has been told so

  bool read(int from, int delay_ms) {
    char bytes[64 << 10];
    const ssize_t got = ::read(from, bytes, sizeof bytes);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
      ended = true;
      return true;
    }
    held.push_back({Clock::now() + std::chrono::milliseconds(delay_ms),
                    std::string(bytes, static_cast<std::size_t>(got))});
    held_bytes += static_cast<std::size_t>(got);
    return true;
  }
  bool is_due() const { return !held.empty() && held.front().due <= Clock::now(); }
  bool write(int to) {
    while (is_due()) {
      std::string& bytes = held.front().bytes;
      const ssize_t put = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put < 0) return errno == EAGAIN || errno == EINTR;
      held_bytes -= static_cast<std::size_t>(put);
      bytes.erase(0, static_cast<std::size_t>(put));
      if (!bytes.empty()) return true;
      held.pop_front();
    }
    return true;
  }
  void pass_on_end(int to) {
    if (!ended || told || !held.empty()) return;
    ::shutdown(to, SHUT_WR);
    told = true;
  }
};

// A reset connection loses the bytes that the relay still holds.
struct Connection {
  Link* link;
  int near, far;
  Pipe out, back;
  bool open = true;
};

void read_control(const std::string& path, std::vector<Link>& links,
                  std::list<Connection>& connections) {
  std::ifstream control(path);
  for (Link& link : links) {
    int delay = 0, resets = 0;
    if (!(control >> delay >> resets)) return;
    link.delay_ms = delay;
    if (std::exchange(link.resets, resets) == resets) continue;
    for (Connection& connection : connections)
      if (connection.link == &link) connection.open = false;
  }
}

void accept_on(Link& link, std::list<Connection>& connections) {
  const int near = ::accept4(link.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (near < 0) return;
  const int far = tcp_socket(), on = 1;
  ::setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)::connect(far, reinterpret_cast<const sockaddr*>(&link.to), sizeof link.to);
  connections.push_back({&link, near, far, {}, {}, true});
}

short wanted(const Pipe& in, const Pipe& out) {
  const bool reads = !in.ended && in.held_bytes < kHeldBytesMax;
  return static_cast<short>((reads ? POLLIN : 0) | (out.is_due() ? POLLOUT : 0));
}

void serve(Connection& c, short near, short far) {
  if (((near | far) & POLLERR) != 0) c.open = false;
  if ((near & POLLIN) != 0) c.open = c.open && c.out.read(c.near, c.link->delay_ms);
  if ((far & POLLIN) != 0) c.open = c.open && c.back.read(c.far, c.link->delay_ms);
  if ((far & POLLOUT) != 0) c.open = c.open && c.out.write(c.far);
  if ((near & POLLOUT) != 0) c.open = c.open && c.back.write(c.near);
  c.out.pass_on_end(c.far);
  c.back.pass_on_end(c.near);
  if (c.out.told && c.back.told) c.open = false;
}

void close_at_once(int fd) {
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  if (argc < 3) return 2;
  std::vector<Link> links;
  for (int i = 2; i < argc; ++i) {
    const std::string pair = argv[i];
    const std::size_t equals = pair.find('=');
    Link& link = links.emplace_back();
    link.from = address_of(pair.substr(0, equals));
    link.to = address_of(pair.substr(equals + 1));
    link.listener = tcp_socket();
    if (::bind(link.listener, reinterpret_cast<sockaddr*>(&link.from), sizeof link.from) != 0 ||
        ::listen(link.listener, 64) != 0) {
      std::perror("chaos_relay");
      return 1;
    }
  }
  std::printf("listening\n");
  std::fflush(stdout);
  std::list<Connection> connections;
  for (;;) {
    std::vector<pollfd> polled;
    for (const Link& link : links) polled.push_back({link.listener, POLLIN, 0});
    for (const Connection& c : connections) {
      polled.push_back({c.near, wanted(c.out, c.back), 0});
      polled.push_back({c.far, wanted(c.back, c.out), 0});
    }
    (void)::poll(polled.data(), polled.size(), kLookMs);
    std::size_t at = links.size();
    for (Connection& c : connections) {
      serve(c, polled[at].revents, polled[at + 1].revents);
      at += 2;
    }
    for (std::size_t i = 0; i < links.size(); ++i)
      if (polled[i].revents != 0) accept_on(links[i], connections);
    read_control(argv[1], links, connections);
    connections.remove_if([](const Connection& c) {
      if (c.open) return false;
      close_at_once(c.near);
      close_at_once(c.far);
      return true;
    });
  }
}
