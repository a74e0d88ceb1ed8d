// Answers the processes that connect to the worker port: tells each its rank, and what it needs to
// know of the attempt. Main thread only.
#pragma once

#include <map>

#include "daemon/supervisor/checkpoints/node_checkpoints.h"
#include "daemon/supervisor/processes/standby_processes.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "daemon/supervisor/workers/worker_runner.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

class WorkerAdmission {
 public:
  struct Parts {
    Notifier& changed;
    const AttemptOrders& orders;
    const std::map<Rank, WorkerSlot>& slots;
    const StandbyProcesses& standbys;
    const WorkerRunner& runner;
    NodeCheckpoints& checkpoints;
  };
  explicit WorkerAdmission(const Parts& parts) : parts_(parts) {}

  /// Return the answer to `hello`, and make the folder for staging its checkpoints. A standby
  /// process is answered once it has a rank. Errors: no rank is left, or make_welcome() refuses.
  Task<Welcome> welcome(WorkerHello hello) const;

 private:
  Task<Rank> rank_for(const WorkerHello& hello) const;
  bool stays(Rank rank) const;

  const Parts parts_;
};

}  // namespace train
