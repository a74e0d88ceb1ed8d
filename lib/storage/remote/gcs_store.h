// Google Cloud Storage.
#pragma once

#include "lib/storage/object_store.h"

namespace train::remote {

/// Open the store at `url`: "gs://bucket/folder". If STORAGE_EMULATOR_HOST is set ("host:port", or
/// with http://), it uses that emulator instead of Google, without credentials. Else it asks for an
/// access token at once: Permission if it gets none.
Result<std::shared_ptr<ObjectStore>> open_gcs(const std::string& url,
                                              const ObjectStoreOptions& options);

}  // namespace train::remote
