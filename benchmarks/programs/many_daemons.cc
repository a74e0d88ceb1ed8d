// Acts to a launcher like thousands of trainds, in one process: many_daemons PORT COUNT [silent]
// [token FILE]. Each is an address of 127.0.0.0/8 behind one listener. It does the handshake (with
// a token: TLS), offers one CPU, answers heartbeats (unless silent), and says that what it was told
// to start runs. Events (events.h): "listening"; "joined" once COUNT launchers' links have an
// answer; "started" once all were told to start workers.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/programs/events.h"
#include "lib/net/handshake.h"
#include "lib/net/hmac.h"
#include "lib/net/listener.h"
#include "lib/net/scope.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"

namespace {

namespace asio = boost::asio;
using namespace train;

struct Counts {
  int wanted = 0, joined = 0, started = 0;
  bool silent = false;
  std::optional<TlsContext> tls;
};

void count(int& counter, const Counts& counts, const char* name) {
  if (++counter == counts.wanted) bench::event(name);
}

Resources one_cpu() {
  Resources amounts;
  amounts.cpu = 1;
  return amounts;
}

void answer(Connection& link, const Frame& frame, const std::string& name, Counts& counts) {
  const auto send = [&](const auto& message) { link.send(encode(message, frame.attempt)); };
  if (frame.type == MessageType::Heartbeat) {
    if (!counts.silent) link.send(encode(HeartbeatAck{decode<Heartbeat>(frame)->sequence}));
  } else if (frame.type == MessageType::AttachRun) {
    link.send(encode(NodeOffer{name, name, {name}, one_cpu(), one_cpu(), {}, false}));
    count(counts.joined, counts, "joined");
  } else if (frame.type == MessageType::PrepareAttempt) {
    const auto prepare = decode<PrepareAttempt>(frame);
    send(AttemptSnapshot{"spawned", 0, {}});
    send(Prepared{prepare->node_rank, prepare->bind_master ? 1u : 0u, ::getpid(), "/tmp"});
  } else if (frame.type == MessageType::StartWorkers) {
    const auto start = decode<StartWorkers>(frame);
    WorkersStarted started;
    for (const WorkerRanks& worker : start->workers)
      started.workers.push_back({worker.rank, ::getpid()});
    send(started);
    for (const StartedWorker& worker : started.workers) send(WorkerJoined{worker.rank, ""});
    count(counts.started, counts, "started");
  }
}

asio::awaitable<void> serve(std::unique_ptr<Connection> link, Counts& counts) {
  const std::string name = link->local_address();
  Identity self{"bench", "traind", name, ::getpid(), name};
  self.instance = random_bytes(self.instance.size());  // or all would be the same traind
  auto peer = co_await accept_handshake(*link, self, counts.tls);
  if (!peer) co_return;
  for (;;) {
    auto frame = co_await link->receive();
    if (!frame) co_return;
    answer(*link, *frame, name, counts);
  }
}

asio::awaitable<void> accept_all(Listener& listener, Scope& scope, Counts& counts) {
  for (;;) {
    auto link = co_await listener.accept();
    if (!link) co_return;
    scope.spawn("link", serve(std::move(*link), counts));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  Counts counts;
  if (words.size() > 3 && words[words.size() - 2] == "token") {
    const auto token = read_token_file(words.back());
    if (!token) {
      fmt::print(stderr, "many_daemons: {}\n", token.error().describe());
      return 1;
    }
    counts.tls = TlsContext::from_token(*token);
    words.resize(words.size() - 2);
  }
  counts.silent = words.size() == 3 && words[2] == "silent";
  if (words.size() != (counts.silent ? 3u : 2u)) {
    fmt::print(stderr, "usage: many_daemons PORT COUNT [silent] [token FILE]\n");
    return 2;
  }
  counts.wanted = std::atoi(words[1].c_str());
  asio::io_context context(1);
  const auto endpoint = parse_endpoint("0.0.0.0:" + words[0]);
  auto listener = Listener::listen(context.get_executor(), *endpoint);
  if (!listener) {
    fmt::print(stderr, "many_daemons: {}\n", listener.error().describe());
    return 1;
  }
  Scope scope(context.get_executor());
  scope.spawn("accept", accept_all(**listener, scope, counts));
  bench::event("listening");
  context.run();
  return 0;
}
