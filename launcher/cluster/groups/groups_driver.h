// Performs a run with replica groups (docs/backends.md, "torchft"): starts the lighthouse and a
// train-run for each group, follows them as a driver (docs/driver.md), and stops them together.
// GroupController decides. When this process dies, the groups stop in good order, the lighthouse
// dies, and a later driver goes on with the groups.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/report/progress.h"

namespace train {

struct GroupsOptions {
  std::string folder;  // has the specs
  std::string name;
  JobSpec spec;
  std::string program;                       // this train-run
  bool own_daemon = true;                    // all groups share one private traind
  std::vector<std::string> lighthouse = {};  // its command; empty: the user has one
  std::string lighthouse_host = "127.0.0.1";
  std::map<std::string, std::string> environment = {};  // of the lighthouse: the workers'
  std::vector<std::string> variables = {};              // the environment of the groups' train-run
  std::vector<std::string> output_words = {};           // options for what group 0 prints
  OutputMode output = OutputMode::Plain;
};

/// Run all groups to their end, or until told to stop. Return the exit code.
int run_groups(const GroupsOptions& options);

}  // namespace train
