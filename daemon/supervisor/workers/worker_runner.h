// Runs the processes of an attempt's ranks: starts each, or takes it from standby, signals it,
// watches it until it ends, and tells the launcher how it ended. The group (core/worker_group.h)
// decides when. Main thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/supervisor/backends/backends.h"
#include "daemon/supervisor/checkpoints/node_checkpoints.h"
#include "daemon/supervisor/core/worker_group.h"
#include "daemon/supervisor/limits/confinement.h"
#include "daemon/supervisor/output/output_pump.h"
#include "daemon/supervisor/processes/leftover_reaper.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "daemon/supervisor/workers/core_file.h"
#include "daemon/supervisor/workers/crash_unwinder.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"

namespace train {

class WorkerRunner {
 public:
  struct Parts {
    asio::any_io_executor executor;
    Scope& scope;
    Notifier& changed;
    const Clock& clock;
    const AttemptOrders& orders;
    const Confinement& confinement;
    Uplink& uplink;
    NodeCheckpoints& checkpoints;
    Backends& backends;
    std::function<void(const GroupEvent& event)> feed;  // the group
  };
  /// All parts must outlive the flows in `scope`.
  explicit WorkerRunner(Parts parts)
      : parts_(std::move(parts)),
        output_(parts_.executor, parts_.scope, parts_.changed, parts_.uplink),
        leftovers_(parts_.scope),
        crashes_(parts_.executor) {}

  /// Start the slot's process, and feed WorkerSpawned or WorkerSpawnFailed. Once the process has
  /// ended, feed WorkerReaped, and WorkerDrained when nothing more comes from it. The orders must
  /// be complete.
  asio::awaitable<void> spawn(WorkerSlot& slot);
  /// The slot's process has left its loop, and waits for another run: feed WorkerStays, and
  /// WorkerDrained when nothing more comes from it.
  asio::awaitable<void> stay(WorkerSlot& slot);
  /// Signal the process and its process group. SIGKILL kills everything that it started, too.
  void signal(WorkerSlot& slot, int signal);
  /// Kill what the rank left behind.
  void reap_leftovers(WorkerSlot& slot) { leftovers_.reap(slot); }
  /// Reap a process that has no rank.
  asio::awaitable<void> reap(pid_t pid) const;

  /// Return the whole environment of the slot's process.
  std::map<std::string, std::string> environment_of(const WorkerSlot& slot, int pmi_fd = -1) const;

 private:
  Result<PipedProcess> process_for(WorkerSlot& slot) const;
  asio::awaitable<void> watch(WorkerSlot& slot);
  asio::awaitable<void> see_off(WorkerSlot& slot);
  void look_into_crash(WorkerSlot& slot, const WaitStatus& status);
  asio::awaitable<void> explain_crash(WorkerSlot& slot, std::optional<ProcessCapture> capture,
                                      std::optional<CoreDump> dump);
  void tell_crash(WorkerSlot& slot) const;
  void send_exit(WorkerSlot& slot) const;

  const Parts parts_;
  OutputPump output_;
  LeftoverReaper leftovers_;
  CrashUnwinder crashes_;
};

}  // namespace train
