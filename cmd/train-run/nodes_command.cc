// train-run nodes: what the nodes of a cluster have and do. train-run queue: which runs share them,
// and which wait for them.
#include <algorithm>
#include <chrono>
#include <optional>

#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/parse_job.h"
#include "launcher/cluster/links/node_survey.h"
#include "launcher/report/queue_table.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"

namespace train {
namespace {

/// Ask the nodes of the job's cluster. If that cannot be done, say why, and set `exit_code`.
std::optional<std::vector<NodeRow>> ask(const JobOptions& job, Duration limit, bool only_offers,
                                        int& exit_code) {
  JobOptions whole = job;
  // Without a file, the spec consists of what the command line says.
  if (whole.path.empty()) whole.arguments = {"true"};
  SpecSource source;
  const auto parsed = parse_job(whole, &source);
  if (!parsed) {
    exit_code = exit_code::kBadSpec;
    return std::nullopt;
  }
  auto rows = survey_nodes(parsed->spec.cluster, kBuild, limit, only_offers);
  if (!rows) {
    print_error(rows.error());
    exit_code =
        rows.error().code == Errc::Unavailable ? exit_code::kUnavailable : exit_code::kPermission;
    return std::nullopt;
  }
  const bool all =
      std::all_of(rows->begin(), rows->end(), [](const NodeRow& row) { return row.answered; });
  exit_code = all ? exit_code::kOk : exit_code::kUnavailable;
  return std::move(*rows);
}

}  // namespace

int nodes_command(const JobOptions& job, Duration limit, bool json) {
  int exit_code = exit_code::kOk;
  const auto rows = ask(job, limit, /*only_offers=*/false, exit_code);
  if (!rows) return exit_code;
  if (json)
    print_json(nodes_json(*rows));
  else
    print_out("{}", Lines{nodes_text(*rows, kBuild)});
  return exit_code;
}

int queue_command(const JobOptions& job, Duration limit, bool json) {
  int exit_code = exit_code::kOk;
  const auto rows = ask(job, limit, /*only_offers=*/true, exit_code);
  if (!rows) return exit_code;
  const std::int64_t now_ms =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  if (json)
    print_json(queue_json(*rows, now_ms));
  else
    print_out("{}", Lines{queue_text(*rows, now_ms)});
  return exit_code;
}

}  // namespace train
