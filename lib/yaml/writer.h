// This file writes scalars and keys so that the reader returns the same text or value.
#pragma once

#include <string>
#include <string_view>

namespace train::yaml {

/// Write the text plain if that is safe and reads back as text under the core schema, else in
/// double quotes with escapes.
std::string write_text(std::string_view text);

}  // namespace train::yaml
