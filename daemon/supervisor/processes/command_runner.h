// Runs commands of the job beside its workers, with a worker's rules: hooks of a backend, the setup
// of the node. Main thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/supervisor/core/worker_group.h"
#include "daemon/supervisor/limits/confinement.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/task.h"

namespace train {

class CommandRunner {
 public:
  struct Order {
    std::string name = {};  // of the cgroup, with a number behind it
    std::vector<std::string> argv = {};
    std::string working_dir = {};
    std::map<std::string, std::string> env = {};  // the complete environment
    Duration limit{};                             // then it is killed
    bool as_worker = false;                       // within the limits of one worker
    std::int32_t role = 0;                        // of which role: WorkerRanks::role
    WorkerBinding binding = {};                   // to CPUs and memory; none: as we are
    std::vector<int> inherit_fds = {};            // kept open under the same number
    /// Takes what it writes, until run() has ended.
    std::function<void(std::string_view data, bool of_errors)> output = {};
  };
  struct End {
    WaitStatus status;
    bool late = false;  // it was killed at its limit
  };

  /// `confinement` must outlive the flows in `scope`.
  CommandRunner(asio::any_io_executor executor, Scope& scope, const Confinement& confinement)
      : executor_(executor), scope_(scope), confinement_(confinement), changed_(executor) {}

  /// Run the command to its end, and kill what it leaves behind. The error says why it could not be
  /// started.
  Task<End> run(Order order);
  /// Kill all that run now. Their run() ends soon after.
  void kill_all() const;
  /// Wait until none runs, at most so long.
  Task<Unit> none_runs(Duration limit);

 private:
  struct Running;
  asio::awaitable<void> read(std::shared_ptr<Running> command, int fd, bool of_errors);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Confinement& confinement_;
  Notifier changed_;
  std::set<std::shared_ptr<const Running>> running_;
  int started_ = 0;  // a kernel may kill whatever starts in a group that was killed before
};

/// Return "it exited with 3", "it was killed by SIGSEGV".
std::string end_text(const WaitStatus& status);

}  // namespace train
