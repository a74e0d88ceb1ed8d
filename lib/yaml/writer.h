// Scalars and keys written so that the reader gives back the same text or value.
#pragma once

#include <string>
#include <string_view>

namespace train::yaml {

/// Plain where that is safe and reads back as text under the core schema; else in double quotes
/// with JSON's escapes.
std::string write_text(std::string_view text);

}  // namespace train::yaml
