// Translates between the controller's words and the wire's: what goes to supervisors when an
// attempt starts, and what comes back. Pure, except for worker_environment_base, which resolves
// secrets.
#pragma once

#include <map>
#include <string>

#include "launcher/cluster/links/daemon_link.h"
#include "launcher/cluster/run/run_record.h"
#include "launcher/core/run_events.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Return the submitter's environment with the job's `env` over it and secrets resolved, but
/// without what only the launcher may know.
Result<std::map<std::string, std::string>> worker_environment_base(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter);

PrepareAttempt prepare_message(const JobSpec& spec, const RunRecord& record, const Prepare& action,
                               const std::string& bind_address,
                               const std::map<std::string, std::string>& env);
/// The limit of what travels to every node in one frame, with room left for what is known only at
/// the start.
inline constexpr std::size_t kStartBytesMax = 3u << 20;
/// Check that the spec and the workers' environment fit: no attempt of a run that is too large
/// begins.
Result<Unit> check_start_size(const JobSpec& spec, const std::map<std::string, std::string>& env);
/// Return the order for standby processes, which wait for an attempt.
StartWorkers standby_message(const JobSpec& spec, const RunRecord& record, int workers,
                             const std::map<std::string, std::string>& env);
/// Return the part of the order that is the same on all nodes of the attempt; set_node() adds the
/// rest, for one node after another.
StartWorkers start_message(const JobSpec& spec, const RunRecord& record, const Start& action,
                           const std::map<std::string, std::string>& env);
void set_node(StartWorkers& message, const Start& action);
/// Return how the launcher of this run talks to a daemon.
DaemonLinkOptions link_options(const RunConfig& config, const RunRecord& record,
                               const std::string& build);
CommitRequest commit_request(const Commit& action, Generation generation,
                             const std::string& created, const Metrics& metrics);

/// Return the metric `epoch` as a whole number, or −1 where there is none.
std::int64_t epoch_of(const Metrics& metrics);

}  // namespace train
