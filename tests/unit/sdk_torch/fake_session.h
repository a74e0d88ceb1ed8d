// A session without a supervisor, in which tests choose the worker's identity.
#pragma once

#include "sdk/client/session.h"

namespace train::testing {

/// Return what worker_info() gives. Change it before the first call that reads it.
sdk::WorkerInfo& fake_worker();
/// What get_checkpoint() gives has this metadata; none: there is no checkpoint.
std::optional<Dict>& fake_checkpoint();
/// Return the positions that were told, by their keys, as a checkpoint's metadata holds them.
Dict& told_positions();
/// Return what histogram() has made, in order.
Histograms& kept_histograms();

}  // namespace train::testing
