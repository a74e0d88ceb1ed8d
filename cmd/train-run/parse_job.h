// Parses the spec that a command line names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cmd/train-run/commands.h"
#include "launcher/report/progress.h"
#include "launcher/spec/job_spec_parser.h"

namespace train {

/// Return the path of this program.
std::string own_program();
/// Return how to print: `output` is text or json.
OutputMode output_mode(const std::string& output);
/// Return our own environment.
std::map<std::string, std::string> submitters_environment();

/// Return the daemons that --hosts or --ssh names, if one of them is given. InvalidArgument: it
/// names none.
Result<std::optional<std::vector<std::string>>> named_hosts(const JobOptions& job);

/// Parse the job's spec, or print its mistakes. `used`: where the spec was taken from.
std::optional<ParsedSpec> parse_job(const JobOptions& job, SpecSource* used);

}  // namespace train
