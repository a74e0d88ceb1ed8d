// Translates the controller's order to commit into a request to the checkpoint store. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/core/run_events.h"
#include "lib/storage/checkpoint_store.h"

namespace train {

/// `generation`: of the launcher that began the attempt.
CommitRequest commit_request(const Commit& action, Generation generation,
                             const std::string& created, const Metrics& metrics);

/// Return the metric `epoch` as a whole number, or −1 if there is none.
std::int64_t epoch_of(const Metrics& metrics);

}  // namespace train
