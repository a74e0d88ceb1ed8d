// traind's own socket in its runtime folder, which takes commands from its user on this node
// (`traind drain`, `train-run --detach`), and the client's side of it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "lib/net/handshake.h"
#include "lib/net/listener.h"
#include "lib/net/scope.h"
#include "lib/wire/daemon_messages.h"

namespace train {

inline constexpr std::int64_t kDrainGraceMsMax = std::int64_t{30} * 24 * 3600 * 1000;

/// Accepts commands for as long as it lives. A connection stays open until traind ends, so that a
/// client can wait for that: it then reads the end of the stream.
class ControlPort {
 public:
  struct Handlers {
    std::function<void(const DrainNode& message)> drain;
    std::function<void(DetachController message, std::shared_ptr<Connection> asker)> detach;
  };
  static Result<std::unique_ptr<ControlPort>> open(asio::any_io_executor executor, Scope& scope,
                                                   const std::string& runtime_dir,
                                                   const Identity& self, Handlers handlers);

 private:
  ControlPort(std::unique_ptr<Listener> listener, Scope& scope, const Identity& self,
              Handlers handlers);
  asio::awaitable<void> accept_loop();
  asio::awaitable<void> serve(std::shared_ptr<Connection> connection);

  std::unique_ptr<Listener> listener_;
  Scope& scope_;
  Identity self_;
  Handlers handlers_;
};

struct DrainRequest {
  std::string runtime_dir;  // of the traind to drain
  Duration grace{};
  std::string reason;
  std::string build;
};

/// Ask the traind of a runtime folder to drain, and wait until it has left. Return the process's
/// exit code, after a message on stderr if there is no traind.
int run_drain(const DrainRequest& request);

}  // namespace train
