// Who this worker is. All calls may be made from any thread, inside train::run() or before it; they
// never block, but for the first one, which connects to the supervisor (a world of one, when there
// is none).
#pragma once

#include <train/config.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace train {

class Context {
 public:
  int world_size() const;
  int world_rank() const;
  int local_rank() const;        // on this node
  int local_world_size() const;  // workers on this node
  int node_rank() const;
  int node_count() const;
  int attempt() const;      // 0 at first, one more with each restart of the group
  bool supervised() const;  // false: started by hand, a world of one
  std::string run_name() const;
  std::string run_id() const;
  std::string storage_path() const;  // the run's folder; empty when not supervised
  const Dict& metadata() const;      // the spec's `metadata`
  const Config& config() const;      // the spec's `train_loop_config`
};

/// The worker's own context; the reference stays valid until the process ends.
const Context& get_context();

/// The workers' share of a global batch at this world size: rank r gets global/world_size, and the
/// first global % world_size ranks one more. Throws Failure when global_batch < world_size.
int per_worker_batch(int global_batch);

/// Wait until every rank has called it. Throws Failure("timeout") after `timeout` (default: none; a
/// line after 60 s names the missing ranks), Stopped when the run is stopped meanwhile. All ranks
/// must make the same collective calls in the same order.
void barrier(std::chrono::milliseconds timeout = std::chrono::milliseconds::max());

/// Rank 0's value, on every rank. For small values (≤ 64 KiB as JSON). Collective: see barrier().
Value broadcast_from_rank_zero(const Value& value);

enum class Reduce { Mean, Sum, Min, Max };
/// Combine each metric over all ranks; every rank gets the same result. All ranks give the same
/// keys with numbers. Collective: see barrier().
Dict reduce(const Dict& metrics, Reduce how = Reduce::Mean);

/// Run f on one rank of each node while that node's other ranks wait; afterwards the name counts as
/// done for this attempt, and later calls return at once. When f throws, the exception leaves on
/// the rank that ran it, and the others get a Failure with its text.
void once_per_node(const std::string& name, const std::function<void()>& f);

}  // namespace train
