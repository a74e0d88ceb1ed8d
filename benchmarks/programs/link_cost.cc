// Measures a TCP link of lib/net with a token, with certificates ("certs") or with neither
// ("plain"), each side in its own process: link_cost handshake COUNT [plain|certs] | bytes
// FRAME_BYTES MIB [plain|certs] | idle COUNT [plain|certs]. Prints one JSON object per side: CPU
// time of the process from getrusage, memory from smaps_rollup.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "lib/net/certificate.h"
#include "lib/net/handshake.h"
#include "lib/net/listener.h"
#include "lib/net/within.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"

namespace {

namespace asio = boost::asio;
using namespace train;

struct Options {
  std::string what;
  std::size_t count = 0, frame_bytes = 0;  // count: of connections, or of such frames
  std::optional<TlsContext> listener_tls, connector_tls;
};

const Identity kLauncher{"bench", "launcher", "h", 1, "", std::string(16, 'l')};
const Identity kDaemon{"bench", "traind", "h", 2, "n", std::string(16, 'd')};

[[noreturn]] void give_up(const Error& error) {
  fmt::print(stderr, "link_cost: {}\n", error.describe());
  std::_Exit(1);
}

template <class T>
T must(Result<T> result) {
  if (result.has_error()) give_up(result.error());
  return std::move(*result);
}

double cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

double private_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  double sum = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Private_", 0) == 0) sum += std::atof(line.substr(line.find(':') + 1).c_str());
  }
  return sum;
}

using Link = std::unique_ptr<Connection>;

asio::awaitable<Link> accept_one(Listener& listener, const Options& options) {
  auto accepted = co_await listener.accept();
  Link link = must(std::move(accepted));
  auto peer = co_await accept_handshake(*link, kDaemon, options.listener_tls);
  (void)must(std::move(peer));
  co_return link;
}

asio::awaitable<Link> connect_one(asio::any_io_executor executor, Endpoint endpoint,
                                  const Options& options) {
  auto connected = co_await Connection::connect(executor, endpoint, seconds(5));
  Link link = must(std::move(connected));
  auto peer = co_await connect_handshake(*link, kLauncher, options.connector_tls);
  (void)must(std::move(peer));
  co_return link;
}

// Exchange a byte each way, so that neither side measures what the other has not finished.
asio::awaitable<void> meet(Connection& link) {
  link.send(encode(Heartbeat{1}));
  (void)co_await link.receive();
}

asio::awaitable<void> listen_side(Listener& listener, const Options& options) {
  Link first = co_await accept_one(listener, options);
  const double cpu_before = cpu_s(), kib_before = private_kib();
  const double count = static_cast<double>(options.count);
  if (options.what == "bytes") {
    for (std::size_t i = 0; i < options.count; ++i) {
      auto frame = co_await first->receive();
      (void)must(std::move(frame));
    }
    const double gib = count * static_cast<double>(options.frame_bytes) / (1 << 30);
    fmt::print("{{\"side\": \"receiver\", \"cpu_s_per_gib\": {:.3f}}}\n",
               (cpu_s() - cpu_before) / gib);
  } else {
    std::vector<Link> links;
    for (std::size_t i = 0; i < options.count; ++i) {
      Link link = co_await accept_one(listener, options);
      if (options.what == "idle") links.push_back(std::move(link));
    }
    if (options.what == "idle")
      fmt::print("{{\"side\": \"listener\", \"private_kib\": {:.2f}}}\n",
                 (private_kib() - kib_before) / count);
    else
      fmt::print("{{\"side\": \"listener\", \"cpu_ms\": {:.4f}}}\n",
                 1000 * (cpu_s() - cpu_before) / count);
    std::fflush(stdout);
    co_await meet(*first);
  }
  std::fflush(stdout);
}

asio::awaitable<void> connect_side(asio::any_io_executor executor, Endpoint endpoint,
                                   const Options& options) {
  Link first = co_await connect_one(executor, endpoint, options);
  const double cpu_before = cpu_s(), kib_before = private_kib();
  const double count = static_cast<double>(options.count);
  if (options.what == "bytes") {
    const Frame frame{.type = MessageType::OutputChunk,
                      .attempt = Attempt{1},
                      .payload = std::string(options.frame_bytes, 'x')};
    for (std::size_t i = 0; i < options.count; ++i) {
      first->send(frame);
      if (first->queued_bytes() > (1u << 20)) (void)co_await first->wait_queue_below(1u << 19);
    }
    (void)co_await first->flush();
    const double gib = count * static_cast<double>(options.frame_bytes) / (1 << 30);
    fmt::print("{{\"side\": \"sender\", \"cpu_s_per_gib\": {:.3f}}}\n",
               (cpu_s() - cpu_before) / gib);
  } else {
    using Clock = std::chrono::steady_clock;
    std::vector<Link> links;
    Clock::duration least = Clock::duration::max();
    for (std::size_t i = 0; i < options.count; ++i) {
      const auto began = Clock::now();
      Link link = co_await connect_one(executor, endpoint, options);
      least = std::min(least, Clock::now() - began);
      if (options.what == "idle") links.push_back(std::move(link));
    }
    if (options.what == "idle")
      fmt::print("{{\"side\": \"connector\", \"private_kib\": {:.2f}}}\n",
                 (private_kib() - kib_before) / count);
    else
      fmt::print("{{\"side\": \"connector\", \"cpu_ms\": {:.4f}, \"least_ms\": {:.4f}}}\n",
                 1000 * (cpu_s() - cpu_before) / count,
                 std::chrono::duration<double, std::milli>(least).count());
    co_await meet(*first);
  }
  std::fflush(stdout);
}

void use_token(Options& options) {
  options.listener_tls = options.connector_tls = TlsContext::from_token(Token::generate());
}

void use_certificates(Options& options) {
  constexpr std::time_t kHour = 3600;
  const std::time_t now = std::time(nullptr);
  const Validity validity{now - kHour, now + kHour};
  const PemPair authority = must(make_authority("bench", validity));
  const auto context = [&](CertificateRole role, const std::string& name) {
    const PemPair own = must(issue_certificate(authority, role, name, validity));
    return must(TlsContext::from_certificates({authority.certificate, own.certificate, own.key}));
  };
  options.listener_tls = context(CertificateRole::Node, "n");
  options.connector_tls = context(CertificateRole::Launcher, "ada");
}

int measure(const Options& options) {
  int port_pipe[2];
  if (::pipe(port_pipe) != 0) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  asio::io_context context(1);
  if (child == 0) {
    auto listener = must(Listener::listen(context.get_executor(), Endpoint::tcp("127.0.0.1", 0)));
    const std::uint16_t port = listener->local_endpoint().port;
    if (::write(port_pipe[1], &port, sizeof port) != sizeof port) std::_Exit(1);
    asio::co_spawn(context, listen_side(*listener, options),
                   [&](std::exception_ptr) { context.stop(); });
    context.run();
    std::_Exit(0);
  }
  std::uint16_t port = 0;
  if (::read(port_pipe[0], &port, sizeof port) != sizeof port) return 1;
  asio::co_spawn(context,
                 connect_side(context.get_executor(), Endpoint::tcp("127.0.0.1", port), options),
                 [&](std::exception_ptr) { context.stop(); });
  context.run();
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Options options;
  options.what = words.empty() ? "" : words[0];
  const std::size_t numbers = options.what == "bytes" ? 2 : 1;
  const std::string security = words.size() == numbers + 2 ? words.back() : "token";
  const bool known =
      options.what == "bytes" || options.what == "handshake" || options.what == "idle";
  const bool whole = words.size() == numbers + 1 || words.size() == numbers + 2;
  if (!known || !whole || (security != "token" && security != "plain" && security != "certs")) {
    fmt::print(stderr,
               "usage: link_cost handshake COUNT [plain|certs] | bytes FRAME_BYTES MIB "
               "[plain|certs] | idle COUNT [plain|certs]\n");
    return 2;
  }
  options.count = std::strtoul(words[1].c_str(), nullptr, 10);
  if (numbers == 2) {
    options.frame_bytes = options.count;
    options.count = (std::strtoul(words[2].c_str(), nullptr, 10) << 20) / options.frame_bytes;
  }
  if (security == "token") use_token(options);
  if (security == "certs") use_certificates(options);
  return measure(options);
}
