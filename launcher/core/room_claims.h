// What a run has nodes keep for it: while it waits, room for its least number of workers, in the
// order of the queue; while it has workers, their room, for their next attempt. Nodes that share
// this order never give half of the room to one run and half to another.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/core/run_events.h"
#include "lib/base/time.h"
#include "lib/model/pool_run.h"

namespace train {

/// After this time, a run has its turn before those of owners with a smaller share. Else one who
/// starts small runs for ever could keep a large one from its turn.
inline constexpr Duration kWaitsLong = std::chrono::minutes(10);
/// Shares differ by this much, in thousandths: less is no reason to tell all nodes.
inline constexpr int kShareStep = 50;

class RoomClaims {
 public:
  /// `begun`: the run has had workers. `since_ms`: when it was asked for; see QueuePlace.
  RoomClaims(const JobSpec& spec, std::string run_id, bool begun, std::int64_t since_ms);

  /// Return what to tell a node that has taken the run up again: what it knew may be lost.
  std::optional<KeepRoom> again(NodeId node) const;
  /// Return what to tell the nodes now that the run waits for room on `nodes`. `share`: see
  /// QueuePlace.
  std::vector<KeepRoom> wait(const std::vector<NodeCapacity>& nodes, int share, TimePoint now);
  /// Return whether nodes keep the room of workers, rather than room for which the run waits.
  bool keeps_that_of_workers() const { return place_.placed; }
  /// Return what to tell them now that workers are to start where `placement` says: no node need
  /// keep more than that.
  std::vector<KeepRoom> begins(const Placement& placement);
  /// Return what to tell them now that they have started: their room is for their next attempt,
  /// too. Nothing if that was told.
  std::vector<KeepRoom> placed(const Placement& placement);
  /// Return what to tell them now that the run is over.
  std::vector<KeepRoom> nothing();

  /// Return those of `others`, which wait, that have their turn before this run: "2 runs come
  /// first: llama (ada) and bert (bob, priority 5)", or "" if there are none.
  std::string runs_before(std::vector<PoolRun> others) const;

 private:
  std::map<NodeId, KeepRoom> rooms_of(const Placement& placement) const;
  std::vector<KeepRoom> wait_with_roles(const std::vector<NodeCapacity>& nodes);
  Resources ingest_when_free(const NodeCapacity& node, bool has_workers) const;
  std::vector<KeepRoom> tell(std::map<NodeId, KeepRoom> wanted);

  const ScalingConfig scaling_;
  const std::vector<IngestNeed> ingest_;
  const std::string run_id_;
  QueuePlace place_;
  std::optional<TimePoint> waits_since_;
  std::map<NodeId, KeepRoom> told_;  // also of nodes that keep nothing any more
  bool placed_told_ = false;
};

}  // namespace train
