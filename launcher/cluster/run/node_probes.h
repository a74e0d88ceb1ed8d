// Runs `traind probe` as the worker of each node of a cluster, for `train-run check`: a run like
// any other, so that what it finds is what a job would find. Calls block.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/report/check_table.h"
#include "lib/base/result.h"

namespace train {

/// By the names of the nodes; several have the same name only if their users gave it to them.
using NodeProbes = std::map<std::string, std::vector<NodeProbe>>;

/// Return what the run's output says; other lines are skipped. Pure.
NodeProbes read_probes(std::string_view output);

/// Return the command line of the run. `nodes`: as cluster.nodes has them. `name`: of the run.
/// Pure.
std::vector<std::string> probe_command(const std::string& program, const JobSpec& spec,
                                       const std::vector<std::string>& nodes,
                                       const std::string& name);

struct Probed {
  NodeProbes probes = {};
  std::string trouble = {};  // how the run has failed; empty: it has not
  int signal = 0;            // we were asked to stop by it: all is cleaned up
};
/// Run `program` (train-run) with that, in spec's storage_path, and remove the run's folder. It
/// stops with us. `variables`: its environment. Unavailable, with what it said, if the run fails
/// and no probe has said anything. Stop signals are blocked from here on.
Result<Probed> probe_nodes(const std::string& program, const JobSpec& spec,
                           const std::vector<std::string>& nodes,
                           const std::vector<std::string>& variables);

}  // namespace train
