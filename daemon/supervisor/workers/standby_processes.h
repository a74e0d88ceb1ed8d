// Processes that were started ahead of their attempt: their libraries are loaded, and they wait in
// the SDK's first call, or are on their way there, until a rank is theirs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/limits/confinement.h"
#include "daemon/supervisor/workers/spawn.h"
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
  /// Start so many; those after one that cannot be started are left out.
  void start(asio::any_io_executor executor, const NodeEnvironment& node, int count,
             const Confinement& confinement);
  /// One that lives goes on as this rank; none where nobody waits. Those that have died are reaped.
  std::optional<StandbyProcess> take(Rank rank);
  /// Nobody takes any more: kill those that are left. Returns them, to be reaped.
  std::vector<pid_t> close();

  std::optional<Rank> rank_of(int number) const;
  bool closed() const { return closed_; }

 private:
  std::vector<StandbyProcess> waiting_;
  std::map<int, Rank> taken_;  // by number
  bool closed_ = false;
};

}  // namespace train
