// Replaces `${NAME}` and `${NAME:-default}` in the fields that take them; `$${` is a literal `${`.
// Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace train::spec {

struct Interpolated {
  std::string text;
  std::vector<std::string> used;  // names of the variables that supplied a part of the text
  std::string mistake;            // empty: none. Otherwise "the variable X is not set", …
  std::string hint;
  std::string_view where;  // the part of the input that is wrong
};

/// Return the text with variables replaced. A result of more than `bytes_max` bytes is a mistake,
/// because any `${NAME}` may stand for a long value.
Interpolated interpolate(std::string_view text,
                         const std::map<std::string, std::string>& environment,
                         std::size_t bytes_max);

/// Escape `text` so that interpolate() returns it unchanged.
std::string escape_interpolation(std::string_view text);

}  // namespace train::spec
