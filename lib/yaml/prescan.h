// This file checks the raw text before yaml-cpp sees it. yaml-cpp 0.7 reads a whole flow collection
// ahead, and 1 MiB of '[' costs it 250 ms; text that is not UTF-8 or holds control characters would
// get into file names and environments.
#pragma once

#include <optional>
#include <string_view>

#include "lib/yaml/diagnostics.h"

namespace train::yaml {

/// Return the first reason to refuse the text, or nothing. Linear time, no allocation. The check of
/// nesting and size is coarse on purpose: it never refuses what the exact limits of the reader
/// would pass, except a text that opens 512 brackets more than it closes.
std::optional<Diagnostic> prescan(const Source& source, std::string_view text);

}  // namespace train::yaml
