#include "daemon/server/control_port.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "lib/base/print.h"
#include "lib/net/control_call.h"
#include "lib/net/runtime_dir.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"

namespace train {
namespace {

constexpr Duration kCommandLimit = seconds(5);  // for a client to send its command

asio::awaitable<void> ask_to_drain(asio::any_io_executor executor, DrainRequest request,
                                   Result<Unit>* result) {
  auto connection = co_await call_traind(executor, request.runtime_dir, request.build);
  if (!connection) {
    Error error = connection.error();
    if (error.hint.empty()) error.hint = "give the --runtime-dir of the traind to drain";
    *result = std::move(error);
    co_return;
  }
  (*connection)
      ->send(encode(DrainNode{std::chrono::duration_cast<milliseconds>(request.grace).count(),
                              request.reason}));
  for (;;) {
    auto frame = co_await (*connection)->receive();
    if (!frame) break;  // traind has left
  }
}

}  // namespace

Result<std::unique_ptr<ControlPort>> ControlPort::open(asio::any_io_executor executor, Scope& scope,
                                                       const std::string& runtime_dir,
                                                       const Identity& self, Handlers handlers) {
  TRY(auto listener, Listener::listen(std::move(executor), control_endpoint(runtime_dir)));
  std::unique_ptr<ControlPort> port(
      new ControlPort(std::move(listener), scope, self, std::move(handlers)));
  scope.spawn("accept commands", port->accept_loop());
  return port;
}

ControlPort::ControlPort(std::unique_ptr<Listener> listener, Scope& scope, const Identity& self,
                         Handlers handlers)
    : listener_(std::move(listener)), scope_(scope), self_(self), handlers_(std::move(handlers)) {}

asio::awaitable<void> ControlPort::accept_loop() {
  for (;;) {
    auto connection = co_await listener_->accept();
    if (!connection) co_return;
    const auto peer = (*connection)->credentials();
    if (peer && (peer->uid == ::geteuid() || peer->uid == 0))
      scope_.spawn("command", serve(std::move(*connection)));
  }
}

asio::awaitable<void> ControlPort::serve(std::shared_ptr<Connection> connection) {
  const std::optional<TlsContext> no_tls;  // only this user and root may connect
  auto peer = co_await accept_handshake(*connection, self_, no_tls);
  if (!peer) co_return;
  auto frame = co_await within(kCommandLimit, connection->receive());
  if (!frame) co_return;
  if (frame->type == MessageType::DrainNode) {
    const auto message = decode<DrainNode>(*frame);
    if (!message) co_return;
    handlers_.drain(*message);
  } else if (frame->type == MessageType::DetachController) {
    auto message = decode<DetachController>(*frame);
    if (!message || message->argv.empty() || message->resume_argv.empty()) co_return;
    handlers_.detach(std::move(*message), connection);
  } else {
    co_return;
  }
  for (;;) {
    auto more = co_await connection->receive();
    if (!more) co_return;
  }
}

int run_drain(const DrainRequest& request) {
  asio::io_context context;
  Scope scope(context.get_executor());
  Result<Unit> result = Unit{};
  scope.spawn("drain", ask_to_drain(context.get_executor(), request, &result));
  context.run();
  if (result) return 0;
  print_error("traind", result.error());
  return 69;
}

}  // namespace train
