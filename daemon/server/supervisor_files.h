// Names the files of one attempt's supervisor on its node. The names are a function of run and
// attempt, so that a restarted traind finds what its predecessor left.
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

/// Return where traind keeps the files of a user: `folder` itself for the user that traind runs as,
/// otherwise the user's own folder below it.
std::string user_folder(const std::string& folder, uid_t uid);

SupervisorFiles supervisor_files(const std::string& runtime_dir, const std::string& spool_dir,
                                 const AttemptKey& key, uid_t uid);
/// Return the files for every supervisor's socket in the runtime folder, of any user, alive or
/// dead.
std::vector<SupervisorFiles> list_supervisor_files(const std::string& runtime_dir,
                                                   const std::string& spool_dir);

}  // namespace train
