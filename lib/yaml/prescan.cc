#include "lib/yaml/prescan.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/utf8.h"
#include "lib/yaml/reader.h"

namespace train::yaml {
namespace {

constexpr int kOpenBracketsMax = 512;
constexpr int kFlowSeparatorsMax = 2 * kNodesMax;

Diagnostic refusal(const Source& source, std::string_view text, std::size_t offset,
                   std::string message, std::string hint) {
  const std::string_view before = text.substr(0, offset);
  const int line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return {Severity::Error,
          {&source, line, static_cast<int>(offset - line_start) + 1},
          std::move(message),
          std::move(hint)};
}

std::optional<Diagnostic> find_bad_character(const Source& source, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = read_code_point(text.substr(at));
    const std::uint32_t c = next.value;
    if (!next.valid)
      return refusal(source, text, at, "the text is not UTF-8", "save the file as UTF-8");
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      return refusal(source, text, at, fmt::format("control character 0x{:02x} in the text", c),
                     "remove it");
    }
    at += next.length;
  }
  return {};
}

/// Return whether a value may begin after this character: a bracket or quote counts only after
/// white space or another indicator.
bool may_begin_value(char before) {
  return before == ' ' || before == '\t' || before == '\n' || before == '\r' || before == '[' ||
         before == '{' || before == ',' || before == ':' || before == '-';
}

/// Skip a quoted text inside a flow collection; return the offset of its closing quote, or the end.
std::size_t closing_quote(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at) {
    if (quote == '"' && text[at] == '\\') ++at;
  }
  return at;
}

std::optional<Diagnostic> find_flow_bomb(const Source& source, std::string_view text) {
  int depth = 0;
  int separators = 0;
  char before = '\n';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool begins = may_begin_value(before);
    before = c;
    if (c == '#' && begins) {
      at = std::min(text.find('\n', at), text.size());
      before = '\n';
    } else if (depth > 0 && begins && (c == '"' || c == '\'')) {
      at = closing_quote(text, at);
    } else if (begins && (c == '[' || c == '{')) {
      if (++depth > kOpenBracketsMax) {
        return refusal(source, text, at,
                       fmt::format("the YAML nests deeper than {} levels", kDepthMax),
                       "flatten it");
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (depth > 0 && (c == ',' || c == ':') && ++separators > kFlowSeparatorsMax) {
      return refusal(source, text, at, fmt::format("the YAML holds more than {} values", kNodesMax),
                     "keep data in files, and name them in the spec");
    }
  }
  return {};
}

}  // namespace

std::optional<Diagnostic> prescan(const Source& source, std::string_view text) {
  if (text.size() > kBytesMax) {
    return refusal(source, text, 0,
                   fmt::format("the text has {} bytes, more than {}", text.size(), kBytesMax),
                   "keep data in files, and name them in the spec");
  }
  if (auto bad = find_bad_character(source, text)) return bad;
  return find_flow_bomb(source, text);
}

}  // namespace train::yaml
