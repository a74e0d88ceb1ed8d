// The role `ingest` of the user's program: it serves the rows of one dataset, decoded and mapped,
// to the ranks of its attempt (lib/data/serve), in place of calling the training loop.
#pragma once

#include "sdk/client/ingest.h"

namespace train::sdk {

/// Serve the dataset of the service's role until the service says to end, then return 0. Return 1,
/// with a line on stderr, if the dataset cannot be opened, or nobody can connect.
int serve_dataset(const IngestService& service);
/// Do this where the program has connected.
int serve_ingest(WorkerSession& session, const IngestService& service);

}  // namespace train::sdk
