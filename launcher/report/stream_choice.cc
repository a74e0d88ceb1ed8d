#include "launcher/report/stream_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace train {
namespace {

constexpr std::int32_t kLocalRankMax = 65'535;
constexpr std::size_t kTextBytesMax = 4096;
constexpr int kBoth = 3;

std::optional<std::int32_t> number_of(std::string_view text, std::int32_t max) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > max)
    return std::nullopt;
  return number;
}

Error mistake(std::string what) {
  return {Errc::InvalidArgument, std::move(what),
          "write 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a number for each local "
          "rank, as in 0:1,2:3"};
}

}  // namespace

Result<StreamChoice> StreamChoice::parse(std::string_view text) {
  if (text.size() > kTextBytesMax)
    return mistake(
        fmt::format("the value has {} characters, more than {}", text.size(), kTextBytesMax));
  StreamChoice choice;
  if (const auto all = number_of(text, kBoth)) {
    choice.streams_[kAll] = *all;
    return choice;
  }
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != text.npos;
    const std::string_view part = text.substr(0, comma);
    const std::size_t colon = std::min(part.find(':'), part.size());
    const auto rank = number_of(part.substr(0, colon), kLocalRankMax);
    const auto streams = number_of(part.substr(std::min(colon + 1, part.size())), kBoth);
    if (!rank || !streams) return mistake(fmt::format("'{}' names no streams", part));
    if (!choice.streams_.emplace(*rank, *streams).second)
      return mistake(fmt::format("local rank {} is named twice", *rank));
    if (more) text.remove_prefix(comma + 1);
  }
  return choice;
}

bool StreamChoice::contains(std::int32_t local_rank, int stream) const {
  auto found = streams_.find(kAll);
  if (found == streams_.end()) found = streams_.find(local_rank);
  return found != streams_.end() && (found->second & stream) != 0;
}

}  // namespace train
