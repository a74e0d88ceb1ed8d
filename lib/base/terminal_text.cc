#include "lib/base/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/utf8.h"

namespace train {
namespace {

// Return the length in bytes of the escape sequence that `text` begins with (ECMA-48): CSI up to
// its final byte, OSC and other strings up to BEL or ST, else ESC and one more byte. An unfinished
// sequence ends with the line.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {
    std::size_t i = 2;
    while (i < text.size() && text[i] >= 0x20 && text[i] <= 0x3F) ++i;
    return i < text.size() && text[i] >= 0x40 && text[i] <= 0x7E ? i + 1 : i;
  }
  const bool is_string = std::string_view("]PX^_").find(text[1]) != std::string_view::npos;
  if (!is_string)
    return static_cast<unsigned char>(text[1]) >= 0x20 && static_cast<unsigned char>(text[1]) < 0x7F
               ? 2
               : 1;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] == '\a') return i + 1;
    if (text[i] == '\x1b') return i + 1 < text.size() && text[i + 1] == '\\' ? i + 2 : i;
  }
  return text.size();
}

// Return how many bytes at the front are plain ASCII, which stays unchanged.
std::size_t plain_length(std::string_view text) {
  const auto ends = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte >= 0x7F;
  };
  return static_cast<std::size_t>(std::find_if(text.begin(), text.end(), ends) - text.begin());
}

}  // namespace

std::string terminal_safe(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::string_view plain = text.substr(0, plain_length(text));
    safe += plain;
    text.remove_prefix(plain.size());
    if (text.empty()) break;
    if (text.front() == '\x1b') {
      text.remove_prefix(escape_length(text));
      continue;
    }
    const CodePoint next = read_code_point(text);
    if (!next.valid) {
      safe += "\xEF\xBF\xBD";
    } else if (next.value == '\t' || !is_steering(next.value)) {
      safe.append(text.data(), next.length);
    } else if (next.value < 0x20) {
      safe += '^';
      safe += static_cast<char>('@' + next.value);
    } else if (next.value == 0x7F) {
      safe += "^?";
    } else {
      safe += fmt::format("\\u{:04x}", next.value);
    }
    text.remove_prefix(next.length);
  }
  return safe;
}

std::string terminal_safe_lines(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    safe += terminal_safe(text.substr(0, end));
    safe += '\n';
    text.remove_prefix(end + 1);
  }
  return safe + terminal_safe(text);
}

int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const CodePoint next = read_code_point(text);
    columns += columns_of(next.valid ? next.value : 0xFFFD);
    text.remove_prefix(next.length);
  }
  return columns;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=@%+,";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string cut_to_columns(std::string_view text, int columns_max) {
  if (columns_of(text) <= columns_max) return std::string(text);
  if (columns_max <= 3)
    return std::string("...").substr(0,
                                     static_cast<std::size_t>(columns_max > 0 ? columns_max : 0));
  std::size_t bytes = 0;
  int columns = 0;
  while (bytes < text.size()) {
    const CodePoint next = read_code_point(text.substr(bytes));
    const int more = columns_of(next.valid ? next.value : 0xFFFD);
    if (columns + more > columns_max - 3) break;
    columns += more;
    bytes += next.length;
  }
  return std::string(text.substr(0, bytes)) + "...";
}

}  // namespace train
