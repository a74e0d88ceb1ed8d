// The environment that a living worker of this machine began with, as it may be shown. Calls block.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/core/job_spec.h"

namespace train {

using Environment = std::map<std::string, std::string>;

/// Return the environment of the process, if it is that of a worker of the run: the rank's, or one
/// that got its rank later. Nothing if there is no such process here, or we may not read it.
std::optional<Environment> worker_environment(std::int64_t pid, const std::string& run_id,
                                              std::int64_t rank);

/// Return the environment without secrets: what `env` of the spec only refers to, values of names
/// that may name a secret, and whatever else redacted() hides. Long values are cut.
Environment shown_worker_environment(const Environment& environment,
                                     const std::optional<JobSpec>& spec);

}  // namespace train
