// What a train-run does that may have to take over a run because its controller's machine is dead:
// traind starts it on a node that stands ready (`resume --failover`). Calls block.
#pragma once

#include <map>
#include <string>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

/// Check that this process could run the run's controller here: it sees the run's folder, which is
/// the controller's and which it may write into, has what the spec takes from the environment and
/// from files, and can prove to the nodes whose run it is. `mark`: PrepareFailover::storage_mark.
Result<Unit> check_failover(const JobSpec& spec, const RunFolder& folder, const std::string& mark,
                            const std::map<std::string, std::string>& environment);

/// Ask the nodes whether the controller that left this mark is gone. Errors: AlreadyExists if the
/// run has ended, or has another controller; Unavailable if the controller lives or may live
/// (failover_vote.h).
Result<Unit> may_take_over(const JobSpec& spec, const RunFolder& folder, const std::string& mark,
                           const std::string& run_id, const std::string& build);

}  // namespace train
