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

/// Return what the run's output says, by the names of the nodes; other lines are skipped. Pure.
std::map<std::string, NodeProbe> read_probes(std::string_view output);

/// Return the command line of the run. `nodes`: as cluster.nodes has them. `name`: of the run.
/// Pure.
std::vector<std::string> probe_command(const std::string& program, const JobSpec& spec,
                                       const std::vector<std::string>& nodes,
                                       const std::string& name);

/// Run `program` (train-run) with that, in spec's storage_path, and remove the run's folder.
/// Unavailable, with what it said, if the run fails.
Result<std::map<std::string, NodeProbe>> probe_nodes(const std::string& program,
                                                     const JobSpec& spec,
                                                     const std::vector<std::string>& nodes);

}  // namespace train
