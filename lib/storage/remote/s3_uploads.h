// This file parses S3's answer to ListMultipartUploads. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train::remote {

struct S3Upload {
  std::string key, id;
};

struct S3UploadsPage {
  std::vector<S3Upload> uploads;
  std::string next_key, next_id;  // where the next page begins; empty: no next page
};

/// Parse one page. Io if `body` is not such an answer, or nests too deep.
Result<S3UploadsPage> parse_uploads(std::string_view body);

}  // namespace train::remote
