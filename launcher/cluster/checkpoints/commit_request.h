// Translates the controller's order to commit into a request to the checkpoint store. Pure.
#pragma once

#include <string>

#include "launcher/core/run_events.h"
#include "lib/base/metrics.h"
#include "lib/storage/checkpoint_store.h"

namespace train {

/// `generation`: of the launcher that began the attempt.
CommitRequest commit_request(const Commit& action, Generation generation,
                             const std::string& created, const Metrics& metrics);

}  // namespace train
