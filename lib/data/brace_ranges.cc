#include "lib/data/brace_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace train::data {
namespace {

constexpr std::size_t kDigitsMax = 9;

struct Range {
  std::size_t begin = 0, end = 0;  // of the text, with its braces
  std::int64_t first = 0, last = 0;
  int width = 0;  // of each number, with zeros before it
};

/// Return how many digits stand at `at`.
std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t count = 0;
  while (at + count < text.size() && text[at + count] >= '0' && text[at + count] <= '9') ++count;
  return count;
}

std::optional<Range> range_at(std::string_view text, std::size_t open) {
  const std::size_t first = digits_at(text, open + 1);
  const std::size_t dots = open + 1 + first;
  if (first == 0 || first > kDigitsMax || text.substr(dots, 2) != "..") return std::nullopt;
  const std::size_t last = digits_at(text, dots + 2);
  const std::size_t close = dots + 2 + last;
  if (last == 0 || last > kDigitsMax || text.substr(close, 1) != "}") return std::nullopt;
  Range range{.begin = open, .end = close + 1};
  range.first = std::stoll(std::string(text.substr(open + 1, first)));
  range.last = std::stoll(std::string(text.substr(dots + 2, last)));
  const bool padded = (first > 1 && text[open + 1] == '0') || (last > 1 && text[dots + 2] == '0');
  if (padded) range.width = static_cast<int>(std::max(first, last));
  return range;
}

}  // namespace

Result<std::vector<std::string>> expand_ranges(const std::string& pattern) {
  std::vector<std::string> names{""};
  std::size_t done = 0;
  for (std::size_t open = pattern.find('{'); open != std::string::npos;
       open = pattern.find('{', open + 1)) {
    const auto range = range_at(pattern, open);
    if (!range) continue;
    if (range->last < range->first) {
      return Error{Errc::InvalidArgument, fmt::format("{} counts down", pattern),
                   "write the smaller number first"};
    }
    const std::int64_t count = range->last - range->first + 1;
    if (count > kRangeNamesMax / static_cast<std::int64_t>(names.size())) {
      return Error{Errc::InvalidArgument,
                   fmt::format("{} stands for more than {} names", pattern, kRangeNamesMax)};
    }
    const std::string between = pattern.substr(done, range->begin - done);
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (std::int64_t number = range->first; number <= range->last; ++number)
        longer.push_back(fmt::format("{}{}{:0{}}", name, between, number, range->width));
    }
    names = std::move(longer);
    done = range->end;
    open = done - 1;
  }
  for (std::string& name : names) name += pattern.substr(done);
  return names;
}

}  // namespace train::data
