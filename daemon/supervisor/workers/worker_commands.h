// Runs commands beside a worker, for whoever looks into it: `train-run exec RUN --rank K -- CMD`.
// Each starts in the worker's folder with its environment, within the limits of one worker and in a
// cgroup of its own, so that what it uses is not the worker's. Main thread only.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/supervisor/processes/command_runner.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/wire/attempt_messages.h"

namespace train {

class WorkerCommands {
 public:
  struct Parts {
    asio::any_io_executor executor;
    Scope& scope;
    const AttemptOrders& orders;
    const Confinement& confinement;
    const std::map<Rank, WorkerSlot>& slots;
    Uplink& uplink;
    std::function<std::map<std::string, std::string>(const WorkerSlot&)> environment;
  };
  /// All parts must outlive the flows in the scope.
  explicit WorkerCommands(Parts parts)
      : parts_(std::move(parts)),
        commands_(parts_.executor, parts_.scope, parts_.confinement),
        changed_(parts_.executor) {}

  /// Run the order's command once for each of its ranks here, and answer for each, with what it has
  /// written and how it ended (PROTOCOL.md, "Calls of workers"), or why it was not run.
  void run(const CallWorkers& order);
  /// The attempt ends: kill them. None starts any more.
  void end();

 private:
  asio::awaitable<void> run_for(Rank rank, CallWorkers order);
  void refuse(Rank rank, std::uint64_t request, std::string_view kind, std::string why);

  const Parts parts_;
  CommandRunner commands_;
  Notifier changed_;
  int running_ = 0;
  bool ended_ = false;
};

}  // namespace train
