// Parses the spec that a command line names.
#pragma once

#include <optional>

#include "cmd/train-run/commands.h"
#include "launcher/spec/job_spec_parser.h"

namespace train {

/// Parse the job's spec, or print its mistakes. `used`: where the spec was taken from.
std::optional<ParsedSpec> parse_job(const JobOptions& job, SpecSource* used);

}  // namespace train
