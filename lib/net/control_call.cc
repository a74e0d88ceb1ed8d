#include "lib/net/control_call.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "lib/net/handshake.h"
#include "lib/net/peer_user.h"
#include "lib/net/runtime_dir.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kPollEvery = milliseconds(20);
constexpr Duration kConnectLimit = seconds(5);

Task<std::unique_ptr<Connection>> connect(asio::any_io_executor executor,
                                          const std::string& runtime_dir, Duration timeout) {
  const TimePoint until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    auto connection =
        co_await Connection::connect(executor, control_endpoint(runtime_dir), kConnectLimit);
    if (connection) {
      CO_TRY_VOID(check_peer_user(**connection));
      co_return std::move(connection);
    }
    if (std::chrono::steady_clock::now() >= until) {
      co_return Error{Errc::Unavailable, fmt::format("no traind runs in {}: {}", runtime_dir,
                                                     connection.error().message)};
    }
    CO_TRY_VOID(co_await pause_for(kPollEvery));
  }
}

}  // namespace

Task<std::unique_ptr<Connection>> call_traind(asio::any_io_executor executor,
                                              const std::string& runtime_dir,
                                              const std::string& build, Duration timeout) {
  CO_TRY(auto connection, co_await connect(executor, runtime_dir, timeout));
  const Identity self{build, "control", "", ::getpid(), ""};
  const std::optional<TlsContext> no_tls;
  CO_TRY_VOID(co_await connect_handshake(*connection, self, no_tls));
  co_return std::move(connection);
}

}  // namespace train
