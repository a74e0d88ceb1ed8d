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
  uid_t uid = 0;       // that it runs as
  bool operator==(const SupervisorFiles&) const = default;
};

/// Where traind keeps the files of a user: `folder` itself for the user that traind runs as, else a
/// folder of that user's own below it.
std::string user_folder(const std::string& folder, uid_t uid);

SupervisorFiles supervisor_files(const std::string& runtime_dir, const std::string& spool_dir,
                                 const AttemptKey& key, uid_t uid);
/// Of all sockets in the runtime folder, whoever is behind them.
std::vector<SupervisorFiles> list_supervisor_files(const std::string& runtime_dir,
                                                   const std::string& spool_dir);
/// Error: a spool folder that is not marked as ours stays.
Result<Unit> remove_supervisor_files(const SupervisorFiles& files);

}  // namespace train
