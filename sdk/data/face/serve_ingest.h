// In a process that the supervisor started as an ingest worker, the library serves the dataset.
#pragma once

namespace train::sdk {

/// Serve until the run tells it to end, and return the exit code. Throws Failure.
int serve_datasets();

}  // namespace train::sdk
