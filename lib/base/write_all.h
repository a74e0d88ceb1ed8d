// Writes to a file descriptor.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace train {

/// Write all of `data`, however many calls that takes. Blocks. The error names `path`.
Result<Unit> write_all(int fd, std::string_view data, const std::string& path);

}  // namespace train
