// The orders by which an attempt begins: the controller's words, completed by what the spec and the
// run's identity say. Pure; the simulation uses it too.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "launcher/cluster/links/run_identity.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "lib/base/result.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"

namespace train {

PrepareAttempt prepare_message(const JobSpec& spec, const RunIdentity& run, const Prepare& action,
                               const std::string& bind_address,
                               const std::map<std::string, std::string>& env);
/// The limit of what travels to every node in one frame, with room left for what is known only at
/// the start.
inline constexpr std::size_t kStartBytesMax = 3u << 20;
/// Check that the spec and the workers' environment fit: no attempt of a run that is too large
/// begins.
Result<Unit> check_start_size(const JobSpec& spec, const std::map<std::string, std::string>& env);
/// Return the order for standby processes, which wait for an attempt.
StartWorkers standby_message(const JobSpec& spec, const RunIdentity& run, int workers,
                             const std::map<std::string, std::string>& env);
/// Return the part of the order that is the same on all nodes of the attempt; set_node() adds the
/// rest, for one node after another.
StartWorkers start_message(const JobSpec& spec, const RunIdentity& run, const Start& action,
                           const std::map<std::string, std::string>& env);
void set_node(StartWorkers& message, const Start& action);
}  // namespace train
