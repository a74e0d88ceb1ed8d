// A session without a supervisor: tests say what this worker is.
#pragma once

#include "sdk/client/session.h"

namespace train::testing {

/// What worker_info() gives; change it before the first call that reads it.
sdk::WorkerInfo& fake_worker();

}  // namespace train::testing
