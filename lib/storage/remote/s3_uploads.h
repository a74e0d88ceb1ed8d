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
  std::string next_key, next_id;  // where the next page begins; empty: this is the last
};

/// Parse one page. Io when `body` is not such an answer, or nests deeper than one does.
Result<S3UploadsPage> parse_uploads(std::string_view body);

}  // namespace train::remote
