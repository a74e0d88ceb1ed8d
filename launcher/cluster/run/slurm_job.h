// A run's life within its Slurm job: starts the daemons on the job's nodes, watches them and the
// job's time, and takes the signals that Slurm sends to all of them for what they are.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/cluster/links/slurm_step.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "launcher/core/slurm_allocation.h"
#include "launcher/core/wall_time.h"
#include "lib/net/scope.h"
#include "lib/net/task.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// What the environment says of a Slurm job, if the spec lets us look. Errors: InvalidArgument, for
/// values that make no sense; Unavailable, if the spec requires a job and this is none.
Result<std::optional<SlurmAllocation>> slurm_job_of(const JobSpec& spec,
                                                    const EnvironmentMap& environment);
/// Return whether a run of this spec starts its daemons by srun. In a job of one node, which we are
/// on, it needs no srun: within a container, there may be none.
bool starts_daemons(const JobSpec& spec, const SlurmAllocation& allocation);
/// Start them, and wait for them. `say` is called for what takes long. Blocks.
Result<SlurmStep> start_daemons(const SlurmAllocation& allocation,
                                const EnvironmentMap& environment,
                                const std::function<void(const std::string&)>& say);

class SlurmJob {
 public:
  struct Handlers {
    std::function<void(const std::string&)> warn;
    std::function<void(const StopAsked&)> stop;  // does nothing if a stop was asked for before
    std::function<void(const Error&)> lost;      // the step has ended
  };

  /// `step`: null if others have started the daemons.
  SlurmJob(const Clock& clock, const SlurmAllocation& allocation, SlurmStep* step,
           const JobSpec& spec, Handlers handlers);

  void begin(Scope& scope);
  /// Handle a node that is being drained because Slurm has sent its daemon a signal: all daemons
  /// get one, and it is meant for the run. Return false if it is drained for another reason.
  bool takes(const NodeDraining& message);
  /// Return whether this request is the same as an earlier one: Slurm signals the batch script and
  /// the daemons together, and some signals twice.
  bool is_repeated(const StopAsked& stop);
  // How long checkpoints take, from rank 0's report on.
  void checkpoint_reported() { reported_.push_back(clock_.now()); }
  void checkpoint_ended();
  void attempt_ended() { reported_.clear(); }
  /// The run is ending: the step may end, too.
  void run_ends() { ending_ = true; }

 private:
  asio::awaitable<void> watch_step();
  asio::awaitable<void> watch_time();
  Task<std::optional<Duration>> time_left();

  const Clock& clock_;
  const SlurmAllocation allocation_;
  SlurmStep* const step_;
  const Duration before_end_, stop_grace_;
  const Handlers handlers_;
  std::optional<WallTime> time_;
  std::deque<TimePoint> reported_;
  std::optional<TimePoint> asked_;  // by a signal, last
  bool ending_ = false;
};

}  // namespace train
