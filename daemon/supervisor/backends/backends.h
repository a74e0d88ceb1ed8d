// What the supervisor does for the backend of its job, beside the variables of
// backend_environment.h: it serves PMI-1 or PMIx (mpi) and a
// rendezvous (horovod), and runs hooks (custom).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/supervisor/backends/backend_calls.h"
#include "daemon/supervisor/backends/backend_hooks.h"
#include "daemon/supervisor/backends/pmi_server.h"
#include "daemon/supervisor/backends/pmix_process.h"
#include "daemon/supervisor/backends/rendezvous.h"

namespace train {

class Backends {
 public:
  struct Parts {
    asio::any_io_executor executor;
    Scope& scope;
    Attempt attempt;
    std::map<Rank, WorkerSlot>& slots;
    Uplink& uplink;
    const AttemptOrders& orders;
    const Confinement& confinement;
    /// Returns the environment of a rank's worker, with variables(rank).
    std::function<std::map<std::string, std::string>(Rank rank)> environment;
  };
  /// All parts must outlive the flows in the scope.
  explicit Backends(const Parts& parts);

  /// Do what comes before the workers. The orders must be complete, and each rank must have a slot.
  Task<Unit> start();
  /// The rank on which start() failed.
  Rank failed_rank() const { return hooks_.failed_rank(); }
  /// Do what comes after the workers.
  asio::awaitable<void> shut_down();
  /// End what serves workers that have ended, whatever else is left of the attempt.
  asio::awaitable<void> end_servers() { return pmix_.shut_down(); }
  /// The attempt is to end at once.
  void hurry() { hooks_.hurry(); }

  /// Return what the rank's process inherits for PMI-1; with other backends no descriptor.
  Result<FileDescriptor> socket_for(Rank rank);
  /// Return what hooks, or PMIx, have found for the rank.
  const std::map<std::string, std::string>& variables(Rank rank) const;
  /// Take in the result of a collective, if it is one of ours.
  bool answered(const BackendCalls::Parts& result);

 private:
  const asio::any_io_executor executor_;
  Scope& scope_;
  const AttemptOrders& orders_;
  BackendCalls calls_;
  PmiServer pmi_;
  PmixProcess pmix_;
  BackendHooks hooks_;
  std::unique_ptr<HttpServer> rendezvous_;
};

}  // namespace train
