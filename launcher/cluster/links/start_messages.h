// The orders that begin an attempt: the controller's decisions, completed from the spec and the
// run's identity. Pure; the simulation uses it too.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "launcher/cluster/links/run_identity.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "lib/base/result.h"
#include "lib/model/backend_profile.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Add the variables by which backend_config reaches programs. The job's own values stay.
void add_backend_variables(const JobSpec& spec, std::map<std::string, std::string>& env);
/// Return what supervisors need to know of the spec's backend.
BackendProfile backend_profile(const JobSpec& spec);
PrepareAttempt prepare_message(const JobSpec& spec, const RunIdentity& run, const Prepare& action,
                               const std::string& bind_address,
                               const std::map<std::string, std::string>& env);
/// Return what to tell a node of the room that it is to keep.
ClaimRoom claim_message(const JobSpec& spec, const KeepRoom& action);
/// Return the order for per_node_setup. `done_in`: the life of the node in which it has succeeded.
NodeSetup node_setup(const JobSpec& spec, const RunIdentity& run, const std::string& done_in,
                     const std::map<std::string, std::string>& env);
/// The limit of what is sent to every node in one frame, with room for what is known only at the
/// start.
inline constexpr std::size_t kStartBytesMax = 3u << 20;
/// Check that the spec and the workers' environment fit, so that a run that is too large begins no
/// attempt.
Result<Unit> check_start_size(const JobSpec& spec, const std::map<std::string, std::string>& env);
/// Return the order for standby processes, which wait for an attempt.
StartWorkers standby_message(const JobSpec& spec, const RunIdentity& run, int workers,
                             const std::map<std::string, std::string>& env);
/// Return the part of the order that is the same on all nodes of the attempt; set_node() adds the
/// rest, for one node after another.
StartWorkers start_message(const JobSpec& spec, const RunIdentity& run, const Start& action,
                           const std::map<std::string, std::string>& env);
void set_node(StartWorkers& message, const Start& action);
/// Return what the workers of each role beside the one that trains run.
std::vector<RoleProgram> role_programs(const JobSpec& spec);
/// Precondition: the spec has the dataset.
StartIngest ingest_message(const JobSpec& spec, const KeepIngest& action);
}  // namespace train
