// Keeps standby processes, which are started ahead of their attempt. They load their libraries, and
// wait in the SDK's first call until they get a rank.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/limits/confinement.h"
#include "daemon/supervisor/processes/spawn.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "lib/base/ids.h"

namespace train {

struct StandbyProcess {
  int number = 0;  // its TRAINRUN_STANDBY
  PipedProcess process;
  std::optional<Cgroup> cgroup;
  std::map<std::string, std::string> env;  // that it was started with
};

class StandbyProcesses {
 public:
  /// Start `count` processes. Stop at the first that cannot be started.
  void start(asio::any_io_executor executor, const NodeEnvironment& node, int count,
             const Confinement& confinement);
  /// Take a living process to become this rank, or none if no process waits. Reap those that have
  /// died. Take none if the attempt has other GPUs than they were started with, because CUDA reads
  /// the list once.
  std::optional<StandbyProcess> take(Rank rank, const std::vector<std::string>& gpus);
  /// Kill the remaining processes: no rank takes one any more. Return them, to be reaped.
  std::vector<pid_t> close();

  std::optional<Rank> rank_of(int number) const;
  bool closed() const { return closed_; }

 private:
  std::vector<StandbyProcess> waiting_;
  std::vector<std::string> gpus_;  // that they see
  std::map<int, Rank> taken_;      // by number
  bool closed_ = false;
};

}  // namespace train
