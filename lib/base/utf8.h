// This file reads UTF-8 that somebody else wrote, one code point at a time, and finds what may not
// reach a terminal or a log as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace train {

struct CodePoint {
  std::uint32_t value = 0;
  std::uint8_t length = 1;  // bytes read, at least 1
  bool valid = false;       // false: the first byte begins nothing that UTF-8 allows
};

/// Read the code point at the front of `text`, which is not empty. Overlong forms and surrogates
/// are not valid.
CodePoint read_code_point(std::string_view text);

/// Return whether a code point steers a terminal or the order of text, rather than being text: C0,
/// DEL, C1, line and paragraph separators, and the marks of bidirectional writing (which can make a
/// log line read as another one).
bool is_steering(std::uint32_t code_point);

/// Return the text as UTF-8 of at most `bytes_max` bytes: invalid bytes become U+FFFD, and a text
/// that was cut ends with "...". For texts of others in what we write.
std::string utf8_text(std::string_view text, std::size_t bytes_max);

/// Return the columns that a code point takes on a terminal: 0 for combining marks, 2 for wide East
/// Asian ones and emoji, else 1.
int columns_of(std::uint32_t code_point);

}  // namespace train
