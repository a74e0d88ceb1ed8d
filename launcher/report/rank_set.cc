#include "launcher/report/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace train {
namespace {

constexpr std::int32_t kRankMax = 999'999;  // far above what a run can have
constexpr std::size_t kTextBytesMax = 4096;

std::optional<std::int32_t> number_of(std::string_view text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text.starts_with('-') || number > kRankMax) return std::nullopt;
  return number;
}

Error mistake(std::string what) {
  return {Errc::InvalidArgument, std::move(what), "write ranks and ranges of ranks, as in 0-3,7"};
}

}  // namespace

Result<RankSet> RankSet::parse(std::string_view text) {
  if (text.size() > kTextBytesMax)
    return mistake(fmt::format("the set of ranks has {} characters, more than {}", text.size(),
                               kTextBytesMax));
  RankSet set;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != text.npos;
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto first = number_of(part.substr(0, dash));
    const auto last = dash == part.npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last) return mistake(fmt::format("'{}' is no rank and no range of ranks", part));
    if (*last < *first) return mistake(fmt::format("the range '{}' ends before it begins", part));
    set.ranges_.emplace_back(*first, *last);
    if (more) text.remove_prefix(comma + 1);
  }
  return set;
}

bool RankSet::contains(std::int32_t rank) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [rank](const auto& range) {
    return range.first <= rank && rank <= range.second;
  });
}

bool RankSet::single() const {
  return std::all_of(ranges_.begin(), ranges_.end(), [this](const auto& range) {
    return range.first == range.second && range.first == ranges_.front().first;
  });
}

}  // namespace train
