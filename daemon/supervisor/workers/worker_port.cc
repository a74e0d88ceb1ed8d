#include "daemon/supervisor/workers/worker_port.h"

#include <fmt/format.h>
#include <unistd.h>

#include "daemon/supervisor/workers/worker_frames.h"
#include "lib/base/print.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"

namespace train {
namespace {
constexpr Duration kHelloLimit = seconds(5);
// For a rank's previous program to leave when the next one connects.
constexpr Duration kLeaveLimit = seconds(1);

Result<Unit> check_user(const Connection& connection) {
  const auto peer = connection.credentials();
  if (peer && peer->uid == ::geteuid()) return Unit{};
  return Error{Errc::Permission, "this supervisor belongs to another user"};
}

}  // namespace

Result<std::unique_ptr<WorkerPort>> WorkerPort::open(asio::any_io_executor executor,
                                                     const std::string& path, Attempt attempt,
                                                     Handlers handlers) {
  TRY(auto listener, Listener::listen(executor, Endpoint::unix_socket(path)));
  std::unique_ptr<WorkerPort> port(
      new WorkerPort(executor, std::move(listener), attempt, std::move(handlers)));
  port->scope_.spawn("accept workers", port->accept_loop());
  return port;
}

WorkerPort::WorkerPort(asio::any_io_executor executor, std::unique_ptr<Listener> listener,
                       Attempt attempt, Handlers handlers)
    : listener_(std::move(listener)),
      attempt_(attempt),
      handlers_(std::move(handlers)),
      left_(executor),
      scope_(executor) {}

WorkerPort::~WorkerPort() = default;

asio::awaitable<void> WorkerPort::accept_loop() {
  for (;;) {
    auto connection = co_await listener_->accept();
    if (!connection) co_return;
    scope_.spawn("worker", serve(std::move(*connection)));
  }
}

// The first frame says which rank it is; the kernel says whose process it is.
asio::awaitable<void> WorkerPort::serve(std::unique_ptr<Connection> connection) {
  connection->set_payload_limit(kHelloPayloadBytesMax);
  auto first = co_await within(kHelloLimit, connection->receive());
  if (!first || first->type != MessageType::WorkerHello) co_return;
  auto hello = decode<WorkerHello>(*first);
  if (!hello) co_return;
  if (!hello->ingest.empty()) {
    co_await serve_ingest(*connection, std::move(*hello));
    co_return;
  }
  const auto welcome = co_await this->welcome(*connection, *hello);
  if (!welcome && welcome.error().code == Errc::Cancelled) co_return;  // it connects again
  if (!welcome) {
    co_await refuse(*connection, welcome.error());
    co_return;
  }
  const Rank rank{welcome->ranks.rank};
  connection->set_payload_limit(kFramePayloadBytesMax);
  const int page = handlers_.progress_page(rank);
  if (page >= 0)
    connection->send_with_descriptor(encode(*welcome, attempt_), page);
  else
    connection->send(encode(*welcome, attempt_));
  connections_[rank] = connection.get();
  if (const auto peer = connection->credentials()) hello->pid = peer->pid;  // as the kernel says
  handlers_.joined(rank, *hello);
  for (;;) {
    auto frame = co_await connection->receive();
    if (!frame) break;
    const auto taken = handlers_.received(rank, std::move(*frame));
    if (taken) continue;
    print_err("traind supervise: closing the connection of rank {}: {}\n", rank.value,
              taken.error().describe());
    co_await refuse(*connection, taken.error());
    break;
  }
  if (const auto found = connections_.find(rank);
      found != connections_.end() && found->second == connection.get()) {
    connections_.erase(found);
    left_.notify();
    handlers_.closed(rank);
  }
}

asio::awaitable<void> WorkerPort::serve_ingest(Connection& connection, WorkerHello hello) {
  const std::string name = hello.ingest;
  Result<Welcome> welcome =
      Error{Errc::AlreadyExists, fmt::format("another process is connected as {}", name)};
  if (const auto allowed = check_user(connection); !allowed)
    welcome = allowed.error();
  else if (!ingest_.contains(name))
    welcome = handlers_.welcome_ingest(hello);
  if (!welcome) {
    co_await refuse(connection, welcome.error());
    co_return;
  }
  connection.set_payload_limit(kFramePayloadBytesMax);
  connection.send(encode(*welcome, attempt_));
  ingest_[name] = &connection;
  for (;;) {
    auto frame = co_await connection.receive();
    if (!frame) break;
    const auto taken = handlers_.received_ingest(name, *frame);
    if (taken) continue;
    print_err("traind supervise: closing the connection of {}: {}\n", name,
              taken.error().describe());
    co_await refuse(connection, taken.error());
    break;
  }
  ingest_.erase(name);
}

Task<Welcome> WorkerPort::welcome(const Connection& connection, const WorkerHello& hello) {
  CO_TRY_VOID(check_user(connection));
  auto welcome = co_await handlers_.welcome(hello);
  if (!welcome) co_return welcome.error();
  const Rank rank{welcome->ranks.rank};
  const TimePoint until = std::chrono::steady_clock::now() + kLeaveLimit;
  for (bool in_time = true; connected(rank);) {
    if (!in_time) {
      const auto first = connections_.at(rank)->credentials();
      co_return Error{Errc::AlreadyExists,
                      fmt::format("process {} is connected as rank {} already",
                                  first ? first->pid : 0, rank.value),
                      "only one process of a rank may use the SDK at a time; remove "
                      "TRAINRUN_SOCKET from the environment of programs that it starts"};
    }
    CO_TRY(in_time, co_await left_.wait_until(until));
  }
  co_return std::move(*welcome);
}

asio::awaitable<void> WorkerPort::refuse(Connection& connection, const Error& why) const {
  connection.send(
      encode(Refused{std::string(to_string(why.code)), why.message, why.hint}, attempt_));
  (void)co_await within(kHelloLimit, connection.flush());
}

void WorkerPort::send(Rank rank, const Frame& frame) {
  if (const auto found = connections_.find(rank); found != connections_.end())
    send(*found->second, rank, frame);
}

void WorkerPort::drop(Rank rank) {
  if (const auto found = connections_.find(rank); found != connections_.end())
    found->second->close();
}

void WorkerPort::send_to_ingest(const std::string& name, const Frame& frame) {
  const auto found = ingest_.find(name);
  if (found != ingest_.end()) found->second->send(frame);
}

void WorkerPort::send_to_all(const Frame& frame) {
  for (auto& [rank, connection] : connections_) send(*connection, rank, frame);
}

/// A worker that asks and does not read must not fill our memory.
void WorkerPort::send(Connection& connection, Rank rank, const Frame& frame) {
  if (connection.queued_bytes() <= kWorkerBytesMax) return connection.send(frame);
  print_err("traind supervise: closing the connection of rank {}: it has not read {} bytes\n",
            rank.value, connection.queued_bytes());
  connection.close();
}

asio::awaitable<void> WorkerPort::close() {
  listener_->close();
  scope_.cancel();
  co_await scope_.join();
}

}  // namespace train
