// The ingest workers of an attempt on this node: keeps a process running in each place that the
// launcher orders, in a session (and cgroup) of its own, tells the launcher when it serves and when
// it has ended, and starts another one in its place, later if that happens often. A process that is
// silent for too long is killed. They connect to the supervisor's socket as workers do, but have no
// rank, and no failure of the run is counted. Main thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/supervisor/core/ingest_restarts.h"
#include "daemon/supervisor/limits/confinement.h"
#include "daemon/supervisor/limits/memory_account.h"
#include "daemon/supervisor/output/output_spool.h"
#include "daemon/supervisor/processes/spawn.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/wire/worker_messages.h"

namespace train {

class IngestPool {
 public:
  struct Parts {
    asio::any_io_executor executor;
    Scope& scope;
    const AttemptOrders& orders;
    const Confinement& confinement;
    Uplink& uplink;
    /// Sends a frame to the process of this name, if it is connected.
    std::function<void(const std::string& name, const Frame& frame)> send;
  };
  /// All parts must outlive the flows in the scope.
  explicit IngestPool(Parts parts) : parts_(std::move(parts)), changed_(parts_.executor) {}

  /// Keep a process running in the place. The orders must be complete.
  void start(const StartIngest& order);
  /// End the process there, gracefully at first, and start no other.
  void stop(const StopIngest& order);
  /// Kill all of them, and start no more: the attempt ends here.
  void end();
  /// Set the limits of all of them once more, as Confinement::renew() does those of workers.
  void renew_limits() const;

  /// Return the answer to a process that says hello, or why it is refused.
  Result<Welcome> welcome(const WorkerHello& hello) const;
  /// Handle a frame of the process. An error ends its connection.
  Result<Unit> received(const std::string& name, const Frame& frame);

  /// Return what a launcher that attaches has to know: the places that were ordered.
  std::vector<IngestPlace> places() const;

 private:
  struct Process;
  struct Place {
    StartIngest order;
    bool wanted = true;
    IngestRestarts restarts = {};
    std::shared_ptr<Process> process = {};  // while one runs
  };
  using Key = std::pair<std::string, std::int32_t>;  // dataset and slot

  asio::awaitable<void> run(std::shared_ptr<Place> place);
  Result<std::shared_ptr<Process>> spawn(const StartIngest& order, std::string name);
  asio::awaitable<void> read(std::shared_ptr<Process> process, std::size_t stream, int fd);
  /// Wait for the end, and kill what is silent or does not end as told. Return why it ended.
  Task<std::string> watch(std::shared_ptr<Place> place, std::shared_ptr<Process> process);
  asio::awaitable<void> drain(std::shared_ptr<Process> process);
  void tell_ended(const Place& place, const std::string& name, const std::string& why,
                  const Process* process, IngestRestarts::Next next);
  std::shared_ptr<Place> place_of(const std::string& name) const;

  const Parts parts_;
  SystemClock clock_;
  Notifier changed_;
  std::map<Key, std::shared_ptr<Place>> places_;
  std::map<Key, int> started_;  // processes so far
  int spawned_ = 0;             // of all places
  bool ended_ = false;
};

}  // namespace train
