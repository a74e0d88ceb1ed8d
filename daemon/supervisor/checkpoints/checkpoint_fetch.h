// Fetches a committed checkpoint from an object store to this node's disk, for the workers that
// restore from it.
#pragma once

#include <string>

#include "lib/storage/object_store.h"
#include "lib/storage/posix_file_system.h"

namespace train {

/// Fetch the checkpoint at `url` into `folder`, which may have it already, and verify every byte.
/// Return the folder. Blocks.
Result<std::string> fetch_checkpoint(const std::string& url, const std::string& folder,
                                     const ObjectStoreOptions& options);

}  // namespace train
