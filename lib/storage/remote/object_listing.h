// This file parses a page of a store's list of objects: of S3 (ListObjectsV2) and of Google Cloud
// Storage (objects.list). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/storage/object_store.h"

namespace train::remote {

struct ObjectsPage {
  std::vector<ObjectStatus> objects;  // with keys as they are in the bucket
  std::string next;                   // names the next page; empty: there is none
};

/// Parse one page. Io if `body` is not such an answer, or if a size or a version cannot be.
Result<ObjectsPage> parse_s3_objects(std::string_view body);
Result<ObjectsPage> parse_gcs_objects(std::string_view body);

}  // namespace train::remote
