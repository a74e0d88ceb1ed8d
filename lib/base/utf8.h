// This file reads UTF-8 from other programs, one code point at a time, and finds code points that
// must not reach a terminal or a log unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace train {

struct CodePoint {
  std::uint32_t value = 0;
  std::uint8_t length = 1;  // bytes read, at least 1
  bool valid = false;       // false: the first byte begins no valid UTF-8 sequence
};

/// Read the code point at the front of `text`, which must not be empty. Overlong forms and
/// surrogates are not valid.
CodePoint read_code_point(std::string_view text);

/// Return whether a code point controls a terminal or the order of text instead of being text: C0,
/// DEL, C1, line and paragraph separators, and the marks of bidirectional writing (which can make
/// one log line look like another).
bool is_steering(std::uint32_t code_point);

/// Return the text as valid UTF-8 of at most `bytes_max` bytes: invalid bytes become U+FFFD, and a
/// text that was cut ends with "...". Use it for text from others that we write down.
std::string utf8_text(std::string_view text, std::size_t bytes_max = std::string_view::npos);

/// Return the columns that a code point takes on a terminal: 0 for combining marks, 2 for wide East
/// Asian ones and emoji, else 1.
int columns_of(std::uint32_t code_point);

}  // namespace train
