// This file reads our own files as text. Calls block; use them for files no larger than we made
// them.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace train {

/// Return the whole file, or "" if it cannot be read to its end: no file, a folder, a failing disk.
/// (A std::istreambuf_iterator would throw there.)
std::string read_text(const std::string& path);

/// Return everything after the first `offset` bytes. NotFound if there is no file. If the file
/// cannot be read to its end, return an error and never a part of it.
Result<std::string> read_text_from(const std::string& path, std::uint64_t offset);

}  // namespace train
