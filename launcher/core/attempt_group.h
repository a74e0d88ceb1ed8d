// The worker group of one attempt, and what the attempt's state machines use of the run. Facts
// only. AttemptController and GroupEnding share them.
#pragma once

#include <optional>
#include <utility>

#include "launcher/core/checkpoint_coordinator.h"
#include "launcher/core/host_table.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/node_pool.h"
#include "launcher/core/rank_table.h"
#include "launcher/core/run_progress.h"

namespace train {

/// The parts of its run that an attempt uses. They outlive the attempt.
struct RunContext {
  const JobSpec& spec;
  const NodePool& nodes;
  CheckpointCoordinator& checkpoints;
  RunProgress& progress;
  bool trusts_learned_limits = false;  // of hangs
};

struct AttemptGroup {
  AttemptGroup(Attempt attempt, Placement where, std::optional<CheckpointInfo> checkpoint)
      : id(attempt),
        placement(std::move(where)),
        restored(std::move(checkpoint)),
        hosts(placement),
        ranks(placement) {}
  /// Make the group of an attempt that an earlier launcher began.
  explicit AttemptGroup(const LivingAttempt& living)
      : id(living.id),
        placement(living.placement),
        restored(living.restored),
        hosts(HostTable::adopted(living.placement)),
        ranks(living.placement),
        adopted(true),
        was_ending(living.ending),
        was_pausing(living.pausing) {}

  const Attempt id;
  const Placement placement;
  std::optional<CheckpointInfo> restored;  // the checkpoint that it begins from
  HostTable hosts;
  RankTable ranks;
  // Under an earlier launcher:
  const bool adopted = false;
  bool was_ending = false;
  bool was_pausing = false;  // the launcher had asked the ranks to pause
};

}  // namespace train
