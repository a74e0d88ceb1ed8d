// Files of ours, as texts. Blocks; for what is no larger than we made it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace train {

/// The whole file; "" where it cannot be read to its end: no file, a folder, a disk that fails. (A
/// std::istreambuf_iterator would throw there.)
std::string read_text(const std::string& path);

/// All that lies behind the first `offset` bytes. NotFound where there is no file; an error, and
/// never a part, where it cannot be read to its end.
Result<std::string> read_text_from(const std::string& path, std::uint64_t offset);

}  // namespace train
