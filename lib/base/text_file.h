// Small files of ours, as texts.
#pragma once

#include <string>

namespace train {

/// The whole file; "" where it cannot be read to its end: no file, a folder, a disk that fails. (A
/// std::istreambuf_iterator would throw there.) Blocks; for files that are no larger than we made
/// them.
std::string read_text(const std::string& path);

}  // namespace train
