// train-run check: whether a job could run on its nodes, and what to do if not.
#include <algorithm>

#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/options.h"
#include "cmd/train-run/parse_job.h"
#include "launcher/cluster/links/node_survey.h"
#include "launcher/cluster/run/node_probes.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"
#include "lib/base/stop_signals.h"
#include "lib/base/store_url.h"

namespace train {

int check_command(const JobOptions& job, Duration limit, bool json) {
  JobOptions whole = job;
  if (whole.path.empty()) whole.arguments = {"true"};
  SpecSource source;
  const auto parsed = parse_job(whole, &source);
  if (!parsed) return exit_code::kBadSpec;
  const JobSpec& spec = parsed->spec;
  if (!spec.cluster.names_nodes()) {
    print_error(
        {Errc::InvalidArgument, "no nodes are named",
         "name them: --hosts, --ssh or the spec's cluster. Without nodes, a job runs on this "
         "machine, or on those of its Slurm job"});
    return exit_code::kUsage;
  }
  const auto rows = survey_nodes(spec.cluster, kBuild, limit);
  if (!rows) {
    print_error(rows.error());
    return rows.error().code == Errc::Unavailable ? exit_code::kUnavailable
                                                  : exit_code::kPermission;
  }
  std::vector<CheckedNode> nodes;
  std::vector<std::string> working;  // those that can run a worker
  for (const NodeRow& row : *rows) {
    nodes.push_back({row, {}});
    if (row.answered && !row.draining) working.push_back(row.address);
  }
  CheckContext context{kBuild, spec.scaling_config.use_gpu, spec.run_config.storage_path, ""};
  if (working.empty()) {
    context.no_probe = "no node can run a worker";
  } else if (is_object_url(context.storage)) {
    context.no_probe = "storage_path is an object store";
  } else if (auto probed = probe_nodes(own_program(), spec, working, variables_of_no_option());
             probed) {
    if (probed->signal != 0) StopSignals::end_by(probed->signal);
    context.trouble = probed->trouble;
    for (CheckedNode& node : nodes) {
      auto& probes = probed->probes[node.node.name];
      if (probes.empty()) continue;
      node.probe = std::move(probes.back());
      probes.pop_back();
    }
  } else {
    context.no_probe = probed.error().describe();
  }
  const CheckTable table = check_table(nodes, context);
  if (json)
    print_json(checks_json(table));
  else
    print_out("{}", Lines{checks_text(table)});
  return table.all_good() ? exit_code::kOk : exit_code::kUnavailable;
}

}  // namespace train
