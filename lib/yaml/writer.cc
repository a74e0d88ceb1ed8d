#include "lib/yaml/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/yaml/scalar.h"

namespace train::yaml {
namespace {

bool plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/' || c == '+' || c == '$' || c == '=';
}

/// Return whether the text is digits and then letters: "30s", "16GiB".
bool is_amount(std::string_view text) {
  const std::size_t letters = text.find_first_not_of("0123456789");
  return letters != 0 && letters != std::string_view::npos &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(letters), text.end(),
                     [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; });
}

bool plain_is_safe(std::string_view text) {
  constexpr std::array<std::string_view, 6> kYaml11Booleans{"y", "n", "yes", "no", "on", "off"};
  if (text.empty()) return false;
  const bool letter = (text[0] | 0x20) >= 'a' && (text[0] | 0x20) <= 'z';
  const bool word =
      letter || text[0] == '/' || text[0] == '_' || text[0] == '$' || text.starts_with("./");
  const bool option = text.starts_with("--") && !text.starts_with("---");
  if (!word && !option && !is_amount(text)) return false;  // numbers, dates, indicators
  // Our reader takes these words as text; older YAML readers do not.
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (std::find(kYaml11Booleans.begin(), kYaml11Booleans.end(), lower) != kYaml11Booleans.end())
    return false;
  if (!std::all_of(text.begin(), text.end(), plain_character)) return false;
  return !is_core_null(text) && !core_bool(text) && !core_number(text) && !core_integer(text);
}

}  // namespace

std::string write_text(std::string_view text) {
  if (plain_is_safe(text)) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

}  // namespace train::yaml
