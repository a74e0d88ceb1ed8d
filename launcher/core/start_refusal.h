// Describes the failure of an attempt that a node did not start.
#pragma once

#include <string>

#include "launcher/core/attempt_cause.h"
#include "launcher/core/run_events.h"

namespace train {

/// `was_prepared`: a refusal before that concerns the node, not a rank. `node`: its name.
AttemptCause::Failure failure_of(const StartRefused& event, bool was_prepared,
                                 const std::string& node);

}  // namespace train
