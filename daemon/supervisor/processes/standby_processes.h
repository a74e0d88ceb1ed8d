// Keeps standby processes, which were started ahead of their attempt. Their libraries are loaded,
// and they wait in the SDK's first call, or are on their way there, until a rank is theirs.
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
  /// Start `count` processes. If one cannot be started, leave out those after it.
  void start(asio::any_io_executor executor, const NodeEnvironment& node, int count,
             const Confinement& confinement);
  /// Take a living process, which goes on as this rank, or none if nobody waits. Reap those that
  /// have died.
  std::optional<StandbyProcess> take(Rank rank);
  /// Kill the processes that are left: nobody takes one any more. Return them, to be reaped.
  std::vector<pid_t> close();

  std::optional<Rank> rank_of(int number) const;
  bool closed() const { return closed_; }

 private:
  std::vector<StandbyProcess> waiting_;
  std::map<int, Rank> taken_;  // by number
  bool closed_ = false;
};

}  // namespace train
