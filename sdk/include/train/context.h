// Functions that tell a worker its place in the run, and that let the ranks act together. Any
// thread may call them, inside train::run() or before it. The calls that only ask about the worker
// never block, except the first one: it connects to the supervisor (or, without one, takes
// torchrun's ranks or becomes a world of one).
#pragma once

#include <train/config.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace train {

/// In a job of several roles (docs/roles.md), the world is the worker's own role: only the
/// variables RANK and WORLD_SIZE count the workers of all of them.
class Context {
 public:
  int world_size() const;
  int world_rank() const;
  int local_rank() const;        // on this node
  int local_world_size() const;  // workers on this node
  std::string role() const;      // ROLE_NAME; "default" in a job of one role
  int node_rank() const;
  int node_count() const;
  int attempt() const;      // 0 at first, plus one for each (re)start of the group
  bool supervised() const;  // false: started by hand or by torchrun
  std::string run_name() const;
  std::string run_id() const;
  std::string storage_path() const;  // the run's folder; empty by hand and under torchrun
  const Dict& metadata() const;      // the spec's `metadata`
  const Config& config() const;      // the spec's `train_loop_config`
};

/// Return the worker's own context. The reference stays valid until the process ends.
const Context& get_context();

/// Return this worker's share of a global batch at this world size: global_batch / world_size, plus
/// one on the first global_batch % world_size ranks. Throws Failure when global_batch < world_size.
int per_worker_batch(int global_batch);

/// Wait until every rank has called it. Throws Failure("timeout") after `timeout` (default: none;
/// after 60 s, train-run names the missing ranks), and Stopped when the run is being stopped. All
/// ranks must make the same collective calls in the same order.
void barrier(std::chrono::milliseconds timeout = std::chrono::milliseconds::max());

/// Return rank 0's value on every rank. For small values (≤ 64 KiB as JSON). Collective: see
/// barrier().
Value broadcast_from_rank_zero(const Value& value);

/// Return every rank's value, by rank. For small values (≤ 64 KiB as JSON each). Collective: see
/// barrier().
List all_gather(const Value& value);

enum class Reduce { Mean, Sum, Min, Max };
/// Combine each metric over all ranks; every rank gets the same result. All ranks must pass the
/// same keys, with numbers as values. Collective: see barrier().
Dict reduce(const Dict& metrics, Reduce how = Reduce::Mean);

/// Run f on one rank of each node while that node's other ranks wait. Afterwards the name counts as
/// done for this attempt, and later calls return at once. When f throws, the rank that ran it gets
/// the exception, and the node's other ranks get a Failure with its text.
void once_per_node(const std::string& name, const std::function<void()>& f);

}  // namespace train
