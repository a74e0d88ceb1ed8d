// This file checks the raw text before yaml-cpp sees it. yaml-cpp 0.7 reads a whole flow collection
// ahead, so that 1 MiB of '[' takes it 250 ms. Control characters and text that is not UTF-8 would
// get into file names and environments.
#pragma once

#include <optional>
#include <string_view>

#include "lib/yaml/diagnostics.h"

namespace train::yaml {

/// Return the first reason to refuse the text, or nothing. Linear time, no allocation. The check of
/// nesting and size is deliberately coarse. Of texts within the reader's exact limits, it refuses
/// only those that open over 512 brackets more than they close, or that have over 100,000 commas
/// and colons inside brackets.
std::optional<Diagnostic> prescan(const Source& source, std::string_view text);

}  // namespace train::yaml
