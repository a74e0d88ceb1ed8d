// How the train-run of a replica group is called: with the run's spec, over which what makes it one
// group lies. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/cluster/groups/groups_driver.h"
#include "launcher/cluster/groups/groups_folder.h"

namespace train {

struct GroupCall {
  int group = 0;
  bool resume = false;      // its run has begun
  std::string lighthouse;   // http://127.0.0.1:29510; "": the spec's env has it
  bool moved = false;       // with `resume`: the lighthouse has another address than before
  std::string daemon = {};  // where the traind is that all groups share; "": the spec names nodes
};

/// Return the words for ChildRun::start().
std::vector<std::string> group_command(const GroupsOptions& options, const GroupsFolder& folder,
                                       const GroupCall& call);

}  // namespace train
