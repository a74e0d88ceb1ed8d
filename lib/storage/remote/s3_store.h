// S3, and stores that speak its protocol (MinIO, Ceph, R2).
#pragma once

#include "lib/storage/object_store.h"

namespace train::remote {

Result<std::shared_ptr<ObjectStore>> open_s3(const std::string& url,
                                             const ObjectStoreOptions& options);

/// Shut S3 down before the process ends. No store may be used afterwards.
void stop_s3();

}  // namespace train::remote
