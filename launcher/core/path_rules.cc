#include "launcher/core/path_rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <span>

namespace train {
namespace {

constexpr std::string_view kAnyFolders = "**";

/// Remove the spaces at the end, except for one behind a backslash.
void trim_end(std::string_view& line) {
  while (line.ends_with(' ')) {
    std::size_t slashes = 0;
    while (slashes + 1 < line.size() && line[line.size() - 2 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 1) return;
    line.remove_suffix(1);
  }
}

template <class Text>
std::vector<Text> parts_of(std::string_view path) {
  std::vector<Text> parts;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    parts.emplace_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  return parts;
}

bool part_matches(const std::string& pattern, std::string_view part) {
  return ::fnmatch(pattern.c_str(), std::string(part).c_str(), 0) == 0;
}

bool parts_match(std::span<const std::string> patterns, std::span<const std::string_view> parts) {
  if (patterns.empty()) return parts.empty();
  if (patterns.front() != kAnyFolders)
    return !parts.empty() && part_matches(patterns.front(), parts.front()) &&
           parts_match(patterns.subspan(1), parts.subspan(1));
  if (patterns.size() == 1) return !parts.empty();  // all that is inside
  for (std::size_t skipped = 0; skipped <= parts.size(); ++skipped)
    if (parts_match(patterns.subspan(1), parts.subspan(skipped))) return true;
  return false;
}

}  // namespace

void PathRules::add_lines(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    add(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void PathRules::add(std::string_view pattern) {
  if (pattern.starts_with('#')) return;
  trim_end(pattern);
  Rule rule;
  if (pattern.starts_with('!')) {
    rule.negated = true;
    pattern.remove_prefix(1);
  }
  if (pattern.ends_with('/')) {
    rule.folders_only = true;
    pattern.remove_suffix(1);
  }
  rule.anchored = pattern.find('/') != std::string_view::npos;
  if (pattern.starts_with('/')) pattern.remove_prefix(1);
  if (pattern.empty()) return;
  rule.parts = parts_of<std::string>(pattern);
  // "**" twice in a row says the same as once, and would only cost time.
  const auto repeated = [](const std::string& a, const std::string& b) {
    return a == kAnyFolders && b == kAnyFolders;
  };
  rule.parts.erase(std::unique(rule.parts.begin(), rule.parts.end(), repeated), rule.parts.end());
  rules_.push_back(std::move(rule));
}

std::optional<bool> PathRules::matches(std::string_view path, bool is_folder) const {
  const auto parts = parts_of<std::string_view>(path);
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->folders_only && !is_folder) continue;
    const bool match = rule->anchored ? parts_match(rule->parts, parts)
                                      : part_matches(rule->parts.front(), parts.back());
    if (match) return !rule->negated;
  }
  return std::nullopt;
}

}  // namespace train
