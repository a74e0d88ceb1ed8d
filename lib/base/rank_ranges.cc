#include "lib/base/rank_ranges.h"

#include <fmt/format.h>

namespace train {

std::string rank_ranges(std::span<const std::int32_t> ranks) {
  std::string text;
  for (std::size_t at = 0; at < ranks.size();) {
    std::size_t end = at + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - at == 1 ? fmt::format("{}", ranks[at])
                          : fmt::format("{}-{}", ranks[at], ranks[end - 1]);
    at = end;
  }
  return text;
}

}  // namespace train
