// Google Cloud Storage.
#pragma once

#include "lib/storage/object_store.h"

namespace train::remote {

/// Open the store at `url`: "gs://bucket/folder". If STORAGE_EMULATOR_HOST is set ("host:port", or
/// with http://), use that emulator instead of Google, without credentials. Else request an access
/// token immediately: Permission if there is none.
Result<std::shared_ptr<ObjectStore>> open_gcs(const std::string& url,
                                              const ObjectStoreOptions& options);

}  // namespace train::remote
