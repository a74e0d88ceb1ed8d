// --dry-run: what would run where, without starting anything.
#pragma once

#include "launcher/spec/job_spec_parser.h"

namespace train {

/// Print the placement, the command, and each rank's environment. Asks the daemons of a cluster for
/// nothing: nodes are taken as having room. Returns the exit code.
int dry_run(const ParsedSpec& parsed);

}  // namespace train
