// Labels of a node: names and values as Kubernetes and Ray have them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace train {

using Labels = std::map<std::string, std::string>;

inline constexpr std::size_t kLabelBytesMax = 63;
inline constexpr std::size_t kLabelsMax = 64;  // of a node
inline constexpr std::string_view kLabelRule =
    "use letters, digits, '.', '_' and '-', at most 63, a letter or digit first and last";

/// Return whether a text can be a label's value.
constexpr bool is_label_value(std::string_view text) {
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= kLabelBytesMax && letter_or_digit(text.front()) &&
         letter_or_digit(text.back()) && std::all_of(text.begin(), text.end(), [&](char c) {
           return letter_or_digit(c) || c == '.' || c == '_' || c == '-';
         });
}

/// The same for its name, which may begin with a domain: "example.org/rack".
constexpr bool is_label_name(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return is_label_value(text);
  return is_label_value(text.substr(0, slash)) && is_label_value(text.substr(slash + 1));
}

/// Return any text as a label's value: other characters become '-'; "" if nothing is left.
inline std::string label_value_of(std::string_view text) {
  std::string value;
  for (const char c : text.substr(0, kLabelBytesMax))
    value += c != '\0' && is_label_value(std::string_view(&c, 1)) ? c
             : c == '.' || c == '_'                               ? c
                                                                  : '-';
  const auto trimmed = [](char c) { return c == '-' || c == '.' || c == '_'; };
  while (!value.empty() && trimmed(value.back())) value.pop_back();
  value.erase(value.begin(), std::find_if_not(value.begin(), value.end(), trimmed));
  return value;
}

}  // namespace train
