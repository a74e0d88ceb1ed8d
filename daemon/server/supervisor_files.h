// Where the files of one attempt's supervisor lie on its node; the names are a function of run and
// attempt, so that a traind that is started again finds what its predecessor left.
#pragma once

#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/result.h"

namespace train {

struct SupervisorFiles {
  std::string socket;  // in the runtime folder
  std::string spool;   // a folder
  std::string cgroup;  // a name below our own cgroup
};

SupervisorFiles supervisor_files(const std::string& runtime_dir, const std::string& spool_dir,
                                 const std::string& run_id, Attempt attempt);
/// Of all sockets in the runtime folder, whoever is behind them.
std::vector<SupervisorFiles> list_supervisor_files(const std::string& runtime_dir,
                                                   const std::string& spool_dir);
/// Error: a spool folder that is not marked as ours stays.
Result<Unit> remove_supervisor_files(const SupervisorFiles& files);

}  // namespace train
