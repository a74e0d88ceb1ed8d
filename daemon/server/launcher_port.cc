#include "daemon/server/launcher_port.h"

#include <fmt/format.h>

#include <utility>

#include "lib/net/peer_user.h"

namespace train {
namespace {

constexpr int kRefusalsASecond = 5;  // in the log

}  // namespace

LauncherPort::LauncherPort(asio::any_io_executor executor, Scope& scope, Log log, Identity self,
                           TlsSource tls, Serve serve)
    : executor_(std::move(executor)),
      scope_(scope),
      log_(std::move(log)),
      self_(std::move(self)),
      tls_(std::move(tls)),
      serve_(std::move(serve)),
      refusals_(kRefusalsASecond) {}

Result<Unit> LauncherPort::listen(const std::string& text) {
  TRY(const Endpoint endpoint, parse_endpoint(text));
  if (endpoint.kind == Endpoint::Tcp && !tls_()) {
    return Error{
        Errc::Unauthenticated,
        fmt::format("refusing to listen on {}: anyone who can connect could run code here", text),
        "give --token-file FILE (made by `traind token FILE`, the same on every node and launcher) "
        "or --tls FOLDER (made by `traind certs`), or listen on a Unix socket (unix:PATH), which "
        "only its user can access"};
  }
  auto listening = Listener::listen(executor_, endpoint);
  if (!listening) {
    Error error = std::move(listening).error();
    if (error.code == Errc::AlreadyExists) error.code = Errc::Unavailable;  // not a wrong setting
    return error;
  }
  std::unique_ptr<Listener> listener = std::move(*listening);
  log_.info("listening", {{"on", listener->local_endpoint().text()}});
  scope_.spawn("accept launchers", accept_loop(listener.get()));
  listeners_.push_back(std::move(listener));
  return Unit{};
}

void LauncherPort::close() {
  for (auto& listener : listeners_) listener->close();
}

asio::awaitable<void> LauncherPort::accept_loop(Listener* listener) {
  for (;;) {
    auto connection = co_await listener->accept();
    if (!connection) co_return;
    if (const auto user = check_peer_user(**connection); !user)
      log_refusal((*connection)->peer(), user.error().message);
    else
      scope_.spawn("launcher", greet(std::move(*connection)));
  }
}

asio::awaitable<void> LauncherPort::greet(Link link) {
  const std::uint64_t id = next_++;
  const std::string peer = link->peer();
  pending_[id] = link;
  if (const auto victim = handshakes_.begin(id, peer.substr(0, peer.rfind(':'))))
    pending_.at(*victim)->close();
  const auto known = co_await accept_handshake(*link, self_, tls_());
  handshakes_.end(id);
  pending_.erase(id);
  if (known)
    co_await serve_(std::move(link));
  else
    log_refusal(peer, known.error().describe());
}

void LauncherPort::log_refusal(const std::string& peer, const std::string& why) {
  if (const auto left_out = refusals_.allow(clock_.now()))
    log_.warn("refused a connection", {{"peer", peer}, {"why", why}, {"more_left_out", *left_out}});
}

}  // namespace train
