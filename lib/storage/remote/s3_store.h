// S3, and what speaks its language (MinIO, Ceph, R2).
#pragma once

#include "lib/storage/object_store.h"

namespace train::remote {

Result<std::shared_ptr<ObjectStore>> open_s3(const std::string& url,
                                             const ObjectStoreOptions& options);

/// Before the process ends; no store is used any more.
void stop_s3();

}  // namespace train::remote
