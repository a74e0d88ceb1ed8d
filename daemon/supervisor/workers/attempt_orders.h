// What traind and the launcher have ordered for one attempt on this node, and the ports that were
// bound for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/workers/worker_environment.h"
#include "lib/base/ids.h"
#include "lib/net/held_port.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"

namespace train {

struct AttemptOrders {
  Attempt attempt;
  std::string spool_dir;
  std::string build;  // ours
  std::optional<PrepareAttempt> prepare = {};
  std::optional<StartWorkers> start = {};
  std::optional<HeldPort> master_port = {};
  std::vector<HeldPort> worker_ports = {};  // ports_per_worker of each local rank, in its order

  /// Bind the ports that `prepare` asks for.
  Result<Unit> hold_ports();
  std::vector<std::uint32_t> held_ports() const;

  /// Return where a worker may run; all of the node, unless traind has bound it.
  WorkerBinding binding_of(std::int32_t local_rank) const {
    const auto local = static_cast<std::size_t>(local_rank);
    return prepare && local < prepare->bindings.size() ? prepare->bindings[local] : WorkerBinding{};
  }

  /// The same for a rank of `start`.
  WorkerBinding binding_of(Rank rank) const {
    for (const WorkerRanks& worker : start->workers)
      if (worker.rank == rank.value) return binding_of(worker.local_rank);
    return {};
  }

  std::string worker_socket() const { return spool_dir + "/worker.sock"; }
  /// Return what the workers of a role (WorkerRanks::role) run and claim here. Those of the role
  /// that trains have no RoleProgram: `start` itself has theirs.
  const std::vector<std::string>& command_of(std::int32_t role) const;
  const Resources& claim_of(std::int32_t role) const;
  /// Return the node's part of the environment of a role's workers. `start` must outlive it;
  /// `prepare` must be set.
  NodeEnvironment node_environment(const StartWorkers& start, std::int32_t role = 0) const;
  /// Return how many workers are to be here, of all roles.
  std::int64_t workers() const;
};

/// Check that `prepare` has claimed something for the role of each worker, and that the role has a
/// program.
Result<Unit> check_roles(const StartWorkers& start, const std::optional<PrepareAttempt>& prepare);

}  // namespace train
