// Runs the job's per_node_setup before the first workers of this node start, and tells the launcher
// how it ended. Main thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/supervisor/processes/command_runner.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "lib/model/node_setup.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"

namespace train {

class NodeSetupRunner {
 public:
  struct Parts {
    asio::any_io_executor executor;
    Scope& scope;
    const AttemptOrders& orders;
    const Confinement& confinement;
    Uplink& uplink;
    std::string run_id;
    bool own_account = false;  // the workers have our HOME, not the submitter's
  };
  /// All parts must outlive the flows in the scope.
  explicit NodeSetupRunner(Parts parts)
      : parts_(std::move(parts)),
        changed_(parts_.executor),
        commands_(parts_.executor, parts_.scope, parts_.confinement) {}

  /// Follow the order of PrepareAttempt, which must be there, unless the command has succeeded in
  /// this life of the node; wait for one that runs already. The error says how it ended, with the
  /// last line that it wrote.
  Task<Unit> run();
  /// Kill what runs.
  void kill();
  /// Do so, and wait a while until the launcher is told of it.
  asio::awaitable<void> stop();

 private:
  Task<Unit> run_command(NodeSetup order);
  std::map<std::string, std::string> environment(const NodeSetup& order) const;

  const Parts parts_;
  Notifier changed_;
  CommandRunner commands_;
  bool running_ = false, done_ = false, stopped_ = false;
  std::optional<Error> error_;  // of the newest
};

/// Return a text that is another one once this machine, or this container, has started anew.
std::string node_life();

}  // namespace train
