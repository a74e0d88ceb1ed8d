// train-run nodes: what the nodes of a cluster have and do.
#include <algorithm>

#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/parse_job.h"
#include "launcher/cluster/links/node_survey.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"

namespace train {

// Without a file, the spec consists of what the command line says.
int nodes_command(const JobOptions& job, Duration limit, bool json) {
  JobOptions whole = job;
  if (whole.path.empty()) whole.arguments = {"true"};
  SpecSource source;
  const auto parsed = parse_job(whole, &source);
  if (!parsed) return exit_code::kBadSpec;
  const auto rows = survey_nodes(parsed->spec.cluster, kBuild, limit);
  if (!rows) {
    print_error(rows.error());
    return rows.error().code == Errc::Unavailable ? exit_code::kUnavailable
                                                  : exit_code::kPermission;
  }
  if (json)
    print_json(nodes_json(*rows));
  else
    print_out("{}", Lines{nodes_text(*rows, kBuild)});
  const bool all =
      std::all_of(rows->begin(), rows->end(), [](const NodeRow& row) { return row.answered; });
  return all ? exit_code::kOk : exit_code::kUnavailable;
}

}  // namespace train
