// Converts a train::Value to JSON text and back, without a JSON library: user programs link this,
// and numbers must come back as they were written (Boost.JSON 1.81 sometimes reads a double one
// unit off). Only to_json and parse_json call this.
#pragma once

#include <train/config.h>

#include <string>
#include <string_view>

namespace train::json {

/// Limit on the nesting of lists and dicts. Deeper text is refused before the stack overflows.
inline constexpr int kDepthMax = 128;

/// Append `value`. Floats become the shortest text that reads back the same, and keep a ".0" or an
/// exponent, so that they read back as floats; bytes that are not UTF-8 become U+FFFD.
void append(std::string& out, const Value& value);
/// Append `text` with its quotes.
void append_string(std::string& out, std::string_view text);

/// Parse a whole text (RFC 8259: UTF-8, no comments, no trailing commas; also NaN, Infinity and
/// -Infinity, which Python writes). Integers beyond 64 bits become floats; a text with two equal
/// keys is refused. Throws Failure("invalid_argument") with
/// the byte offset of the mistake.
Value parse(std::string_view text);

}  // namespace train::json
