// --dry-run: prints what would run where, without starting anything.
#pragma once

#include "launcher/spec/job_spec_parser.h"

namespace train {

/// Print the placement, the command, and each rank's environment. Do not ask the daemons of a
/// cluster: assume that its nodes have room. Return the exit code.
int dry_run(const ParsedSpec& parsed);

}  // namespace train
