// Runs the commands of `backend: custom` on this node: before the workers of an attempt start, and
// after all of them have ended. Each runs once for each rank, as that worker would.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/backends/backend_calls.h"
#include "daemon/supervisor/processes/command_runner.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"

namespace train {

class BackendHooks {
 public:
  using Environment = std::map<std::string, std::string>;
  struct Parts {
    asio::any_io_executor executor;
    Scope& scope;
    const AttemptOrders& orders;
    const Confinement& confinement;
    BackendCalls& calls;
    std::function<Environment(Rank rank)> environment;  // of the worker, with variables(rank)
  };
  /// All parts must outlive the flows in the scope.
  explicit BackendHooks(Parts parts)
      : parts_(std::move(parts)),
        changed_(parts_.executor),
        commands_(parts_.executor, parts_.scope, parts_.confinement) {}

  /// Publish, exchange, and run on_start and on_training_start, of all ranks at the same time. The
  /// orders must be complete, and each rank must have a slot. Ends with the first rank that fails.
  Task<Unit> start();
  Rank failed_rank() const { return failed_rank_; }
  /// Kill the hooks that still run, start none of them any more, and run on_shutdown of all ranks,
  /// for at most stop_grace. What goes wrong then is nobody's concern any more. Once is enough: who
  /// calls it again waits with the first one.
  asio::awaitable<void> shut_down();
  /// Do not wait for on_shutdown: kill it, or have it last a few seconds.
  void hurry();
  /// Return what start() has found for the rank.
  const Environment& variables(Rank rank) const;

 private:
  struct Progress {
    std::size_t left = 0;  // ranks
    std::optional<Error> error = {};
  };
  /// Shared with the flows of the ranks.
  using Shared = std::shared_ptr<Progress>;
  bool is_custom() const;
  asio::awaitable<void> start_rank(Rank rank, Shared progress);
  Task<Unit> prepare(Rank rank);
  Task<std::string> run(Rank rank, std::string name, std::vector<std::string> command,
                        Duration limit);
  asio::awaitable<void> shut_down_rank(Rank rank, Duration limit, Shared progress);
  Duration shutdown_limit() const;

  const Parts parts_;
  Notifier changed_;
  std::map<Rank, Environment> variables_;
  CommandRunner commands_;
  Rank failed_rank_;
  enum class Phase { NotBegun, Starting, ShuttingDown, Over };
  Phase phase_ = Phase::NotBegun;
  bool hurried_ = false;
};

}  // namespace train
