// Where the files of one attempt's supervisor lie on its node; the names are a function of run and
// attempt, so that a traind that is started again finds what its predecessor left.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "daemon/core/node_agent.h"
#include "lib/base/result.h"

namespace train {

struct SupervisorFiles {
  std::string socket;  // in the runtime folder
  std::string spool;   // a folder
  std::string cgroup;  // a name below our own cgroup
  uid_t uid = 0;       // as whom it runs
  bool operator==(const SupervisorFiles&) const = default;
};

/// What traind of root keeps for a user whom it runs workers as lies in a folder of his own below
/// its folder for that; what is its own user's, in that itself.
std::string user_folder(const std::string& folder, uid_t uid);

SupervisorFiles supervisor_files(const std::string& runtime_dir, const std::string& spool_dir,
                                 const AttemptKey& key, uid_t uid);
/// Of all sockets in the runtime folder, whoever is behind them.
std::vector<SupervisorFiles> list_supervisor_files(const std::string& runtime_dir,
                                                   const std::string& spool_dir);
/// Error: a spool folder that is not marked as ours stays.
Result<Unit> remove_supervisor_files(const SupervisorFiles& files);

}  // namespace train
