// Lets a launcher and a daemon shake hands.
#pragma once

#include "lib/net/handshake.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {

inline const Identity kLauncher{.build = "9.8.7+a",
                                .role = "launcher",
                                .host = "login",
                                .pid = 11,
                                .node_name = "",
                                .instance = std::string(16, 'l')};
inline const Identity kDaemon{.build = "9.8.7+b",
                              .role = "traind",
                              .host = "node-b.example",
                              .pid = 22,
                              .node_name = "node-b",
                              .instance = std::string(16, 'd')};

class HandshakeTest : public NetTest {
 protected:
  struct Ends {
    std::optional<Result<PeerInfo>> connector, listener;
  };

  static asio::awaitable<void> store(std::optional<Result<PeerInfo>>& out, Task<PeerInfo> task) {
    out = co_await std::move(task);
  }

  Ends shake(Connection& a, Connection& b, const std::optional<TlsContext>& tls_a,
             const std::optional<TlsContext>& tls_b, HandshakeLimits limits_a = {},
             HandshakeLimits limits_b = {}) {
    Ends ends;
    run([&]() -> asio::awaitable<void> {
      Scope scope(executor());
      scope.spawn("connector",
                  store(ends.connector, connect_handshake(a, kLauncher, tls_a, limits_a)));
      scope.spawn("listener", store(ends.listener, accept_handshake(b, kDaemon, tls_b, limits_b)));
      co_await scope.join();
    });
    return ends;
  }

  static std::string text(const std::optional<Result<PeerInfo>>& end) {
    if (!end) return "did not end";
    return end->has_value()
               ? "ok"
               : std::string(to_string(end->error().code)) + ": " + end->error().describe();
  }
};

}  // namespace train
