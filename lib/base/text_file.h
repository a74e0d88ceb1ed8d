// This file reads whole files as text. Calls block; use them only for files that we wrote, or that
// are known to be small.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace train {

/// Return the whole file, or "" if it cannot be read to its end (no file, a folder, a failing
/// disk). (A std::istreambuf_iterator would throw there.)
std::string read_text(const std::string& path);

/// Return everything after the first `offset` bytes. NotFound if there is no file. If the file
/// cannot be read to its end, returns an error and no part of the text.
Result<std::string> read_text_from(const std::string& path, std::uint64_t offset);

}  // namespace train
