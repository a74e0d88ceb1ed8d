// The port to which launchers connect. Anyone who reaches it can open connections. It hands on only
// those of this user or root, and over TCP only those with the token or a launcher's certificate.
// Until then a connection gets little time, and only a few may wait at a time.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/pending_handshakes.h"
#include "lib/base/time.h"
#include "lib/net/handshake.h"
#include "lib/net/listener.h"
#include "lib/net/scope.h"
#include "lib/net/tls_files.h"
#include "lib/observe/log.h"
#include "lib/observe/log_limit.h"

namespace train {

class LauncherPort {
 public:
  using Link = std::shared_ptr<Connection>;
  /// Serves a connection whose handshake is over, for its whole life.
  using Serve = std::function<asio::awaitable<void>(Link link)>;

  /// `scope` owns the flows, and must end before this object.
  LauncherPort(asio::any_io_executor executor, Scope& scope, Log log, Identity self, TlsSource tls,
               Serve serve);

  /// Listen on "unix:PATH" or "HOST:PORT". HOST:PORT needs TLS: Unauthenticated without it.
  /// Unavailable if another process listens there already.
  Result<Unit> listen(const std::string& text);
  /// Return the first address that it listens on, with the port that the system picked.
  Endpoint endpoint() const { return listeners_.front()->local_endpoint(); }
  /// Accept no more connections. Existing ones stay open.
  void close();

 private:
  asio::awaitable<void> accept_loop(Listener* listener);
  asio::awaitable<void> greet(Link link);
  void log_refusal(const std::string& peer, const std::string& why);

  asio::any_io_executor executor_;
  Scope& scope_;
  Log log_;
  const Identity self_;
  const TlsSource tls_;
  const Serve serve_;
  SystemClock clock_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::uint64_t next_ = 1;
  PendingHandshakes handshakes_;
  std::map<std::uint64_t, Link> pending_;
  LogLimit refusals_;
};

}  // namespace train
