// Where launchers connect. Whoever reaches a port can open connections: only this user or root, and
// over TCP only who holds the token or a launcher's certificate, is handed on; until then a
// connection gets little time, and there are few at a time.
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
  /// The life of a connection whose handshake is over.
  using Serve = std::function<asio::awaitable<void>(Link link)>;

  /// `scope` owns the flows, and ends before this.
  LauncherPort(asio::any_io_executor executor, Scope& scope, Log log, Identity self, TlsSource tls,
               Serve serve);

  /// "unix:PATH" or "HOST:PORT", which needs TLS: Unauthenticated without. Unavailable where
  /// somebody listens already.
  Result<Unit> listen(const std::string& endpoint);
  /// Take nobody any more; who is connected stays.
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
