// Google Cloud Storage.
#pragma once

#include "lib/storage/object_store.h"

namespace train::remote {

/// `url`: "gs://bucket/folder". STORAGE_EMULATOR_HOST ("host:port", or with http://) is asked
/// instead of Google, without credentials. Else it asks for an access token at once: Permission
/// where there is none to be had.
Result<std::shared_ptr<ObjectStore>> open_gcs(const std::string& url,
                                              const ObjectStoreOptions& options);

}  // namespace train::remote
