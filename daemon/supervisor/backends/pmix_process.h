// Runs trainrun-pmix for the ranks of this node (backend: mpi, pmi: pmix), and settles with the
// other nodes what it asks for. It runs as the workers' user, so what libpmix makes of their bytes
// gives them no more rights; what it says is checked as theirs is.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/supervisor/backends/backend_calls.h"
#include "daemon/supervisor/backends/mpi_init_watch.h"
#include "daemon/supervisor/processes/command_runner.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "lib/net/connection.h"
#include "lib/net/scope.h"
#include "lib/wire/pmix_messages.h"

namespace train {

class PmixProcess {
 public:
  using Environment = std::map<std::string, std::string>;
  struct Parts {
    asio::any_io_executor executor;
    Scope& scope;
    Uplink& uplink;
    const AttemptOrders& orders;
    const Confinement& confinement;
    BackendCalls& calls;
    std::function<Environment(Rank rank)> environment;  // of a worker
  };
  /// All parts must outlive the flows in the scope.
  explicit PmixProcess(Parts parts)
      : parts_(std::move(parts)),
        commands_(parts_.executor, parts_.scope, parts_.confinement),
        changed_(parts_.executor),
        inits_(parts_.uplink) {}

  /// Start it if the job uses it. The orders must be complete, and each rank must have a slot.
  Task<Unit> start();
  /// End it, if it runs.
  asio::awaitable<void> shut_down();
  /// Return what the rank's process needs to find it.
  const Environment& variables(Rank rank) const;

 private:
  Task<Unit> serve_ranks();
  Result<CommandRunner::Order> order_for(const FileDescriptor& socket);
  asio::awaitable<void> run(CommandRunner::Order order);
  asio::awaitable<void> listen();
  Result<Unit> take(const Frame& frame);
  asio::awaitable<void> end_fences();
  Task<std::string> exchange(bool own_ranks, std::string data);
  struct Gathering;
  Task<std::vector<std::string>> gather(const std::vector<std::string>& own);
  asio::awaitable<void> join(Rank rank, std::string part, std::shared_ptr<Gathering> shared);
  void take(const PmixNotice& notice);

  const Parts parts_;
  CommandRunner commands_;
  Notifier changed_;
  MpiInitWatch inits_;
  std::unique_ptr<Connection> link_;
  std::map<Rank, Environment> variables_;
  std::string ended_;  // how it has ended
  bool shutting_down_ = false;
  std::deque<PmixFence> fences_ =
      {};  // that have not ended, in their order; the first is under way
  std::uint64_t last_fence_ = 0;
  int notices_ = 0;
};

}  // namespace train
