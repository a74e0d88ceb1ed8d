#include "lib/flight/flight_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "lib/base/rank_ranges.h"

namespace train {
namespace {

constexpr std::size_t kLinesMax = 8;
constexpr std::size_t kRangesBytesMax = 200;
constexpr int kDefaultGroupsMax = 4;  // there is one, unless a record is wrong

using Members = std::map<std::int32_t, const FlightGroup*>;
using Ranks = std::vector<std::int32_t>;

std::string text_of(const Ranks& ranks) {
  std::string ranges = rank_ranges(ranks);
  if (ranges.size() > kRangesBytesMax)
    ranges = fmt::format("{}... ({} ranks)", ranges.substr(0, kRangesBytesMax), ranks.size());
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges;
}

std::string text_of(const FlightCall& call) {
  return call.sizes.empty() ? call.name : fmt::format("{} of {}", call.name, call.sizes);
}

/// In these, all ranks pass tensors of the same sizes; in others (gather, all_to_all) they may not.
bool sizes_must_match(std::string_view name) {
  constexpr std::array<std::string_view, 6> kSame{
      "all_reduce",           "allreduce", "broadcast", "_all_gather_base",
      "_reduce_scatter_base", "barrier"};
  return std::find(kSame.begin(), kSame.end(), name) != kSame.end();
}

/// Return the calls that ranks have recorded under a number: what, and which ranks.
std::vector<std::pair<FlightCall, Ranks>> calls_at(const Members& members, std::int64_t number) {
  std::vector<std::pair<FlightCall, Ranks>> calls;
  for (const auto& [rank, group] : members) {
    const auto found = group->calls.find(number);
    if (found == group->calls.end()) continue;
    const FlightCall& call = found->second;
    const auto same = std::find_if(calls.begin(), calls.end(), [&](const auto& other) {
      return other.first.name == call.name &&
             (other.first.sizes == call.sizes || !sizes_must_match(call.name));
    });
    if (same == calls.end())
      calls.push_back({call, {rank}});
    else
      same->second.push_back(rank);
  }
  return calls;
}

/// Say which ranks lack the first call that others have made.
std::string missing_call(const std::string& name, const Members& members, std::int64_t least) {
  const std::int64_t number = least + 1;
  Ranks lack, made;
  for (const auto& [rank, group] : members) (group->made < number ? lack : made).push_back(rank);
  const auto calls = calls_at(members, number);
  const std::string what = calls.empty() ? "" : fmt::format(" ({})", text_of(calls[0].first));
  return fmt::format("{} {} not made collective call {}{} of {}, which {} made", text_of(lack),
                     lack.size() == 1 ? "has" : "have", number, what, name,
                     text_of(made) + (made.size() == 1 ? " has" : " have"));
}

/// Say how the first call that does not match differs; "" if all match.
std::string mismatch(const std::string& name, const Members& members, std::int64_t after,
                     std::int64_t last) {
  std::set<std::int64_t> numbers;
  for (const auto& [rank, group] : members)
    for (auto call = group->calls.upper_bound(after); call != group->calls.end(); ++call)
      if (call->first <= last) numbers.insert(call->first);
  for (const std::int64_t number : numbers) {
    const auto calls = calls_at(members, number);
    if (calls.size() < 2) continue;
    return fmt::format("collective call {} of {} differs: {} in {}, {} in {}{}", number, name,
                       text_of(calls[0].second), text_of(calls[0].first), text_of(calls[1].second),
                       text_of(calls[1].first), calls.size() > 2 ? ", others in others" : "");
  }
  return {};
}

void compare_group(const std::string& name, const Members& members,
                   std::vector<std::string>& lines) {
  const auto by = [&](std::int64_t FlightGroup::*field) {
    const auto [least, most] = std::minmax_element(
        members.begin(), members.end(),
        [&](const auto& a, const auto& b) { return a.second->*field < b.second->*field; });
    return std::pair(least->second->*field, most->second->*field);
  };
  const auto [least_made, most_made] = by(&FlightGroup::made);
  const auto [least_completed, most_completed] = by(&FlightGroup::completed);
  if (least_completed >= most_made) return;  // nobody waits
  if (std::string text = mismatch(name, members, least_completed, most_made); !text.empty())
    lines.push_back(std::move(text));
  if (least_made < most_made) {
    lines.push_back(missing_call(name, members, least_made));
  } else if (lines.empty() || !lines.back().starts_with("collective call")) {
    const auto calls = calls_at(members, most_made);
    lines.push_back(fmt::format(
        "all of {} have made collective call {}{} of {}, and it has not ended: the cause is not a "
        "call that is missing",
        text_of([&] {
          Ranks all;
          for (const auto& [rank, group] : members) all.push_back(rank);
          return all;
        }()),
        most_made, calls.empty() ? "" : fmt::format(" ({})", text_of(calls[0].first)), name));
  }
}

}  // namespace

std::vector<std::string> compare_flight_records(const std::map<std::int32_t, FlightRecord>& ranks) {
  std::map<std::string, Members> groups;
  for (const auto& [rank, record] : ranks)
    for (const auto& [name, group] : record.groups) groups[name].emplace(rank, &group);
  // All ranks are in the default group, also those that have made no call in it.
  static const FlightGroup kNone{};
  int default_groups = 0;
  for (auto& [name, members] : groups)
    if (name.starts_with("default_pg") && default_groups++ < kDefaultGroupsMax)
      for (const auto& [rank, record] : ranks) members.emplace(rank, &kNone);
  std::vector<std::string> lines;
  for (const auto& [name, members] : groups) {
    if (lines.size() >= kLinesMax) break;
    if (members.size() > 1) compare_group(name, members, lines);
  }
  return lines;
}

}  // namespace train
