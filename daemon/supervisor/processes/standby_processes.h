// Keeps standby processes, which are started ahead of their attempt. They load their libraries, and
// wait in the SDK's first call until they get a rank. Or keeps the workers of an earlier run, which
// wait to be the same ranks again.
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
  int number = 0;  // its TRAINRUN_STANDBY, or the rank that it was and will be
  PipedProcess process;
  std::optional<Cgroup> cgroup;
  std::map<std::string, std::string> env;  // that it was started with, or had in its last run
  std::string mark = {};   // a variable of its environment that nobody else here has
  std::string group = {};  // its cgroup's name
};

class StandbyProcesses {
 public:
  /// Start `count` processes. Stop at the first that cannot be started.
  void start(asio::any_io_executor executor, const NodeEnvironment& node, int count,
             const Confinement& confinement);
  /// Keep processes that have been workers, and saw these GPUs.
  void keep(std::vector<StandbyProcess> workers, std::vector<std::string> gpus);
  /// Take a living process to become this rank, or none if no process waits. Reap those that have
  /// died. Take none if the attempt has other GPUs than they were started with, because CUDA reads
  /// the list once.
  std::optional<StandbyProcess> take(Rank rank, const std::vector<std::string>& gpus);
  /// Kill the remaining processes: no rank takes one any more. Return them, to be reaped.
  std::vector<pid_t> close();

  /// Nobody gets a rank any more: whoever asks for one is told to end.
  void end() { closed_ = ended_ = true; }
  /// Reap those that have ended. Return how many are left.
  std::size_t reap();

  /// Return the rank that a process has got; `was_worker`: its number is the rank that it was.
  std::optional<Rank> rank_of(int number, bool was_worker) const;
  bool closed() const { return closed_; }
  bool ended() const { return ended_; }

 private:
  std::vector<StandbyProcess> waiting_;
  std::vector<std::string> gpus_;  // that they see
  std::map<int, Rank> taken_;      // by number
  bool were_workers_ = false;      // each becomes the rank that it was
  bool closed_ = false, ended_ = false;
};

}  // namespace train
