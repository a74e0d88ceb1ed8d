#include "launcher/report/since.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <optional>

namespace train {
namespace {

using WallTime = std::chrono::system_clock::time_point;
using std::chrono::microseconds;

// The clock's nanoseconds overflow some centuries away from 1970.
constexpr microseconds kDurationMax = std::chrono::hours(24 * 36'525);  // 100 years
constexpr std::int64_t kYearMax = 2200;

/// Take a number of `digits_min` to `digits_max` digits off the text.
std::optional<std::int64_t> take_number(std::string_view& text, std::size_t digits_min,
                                        std::size_t digits_max) {
  std::size_t digits = 0;
  while (digits < text.size() && digits <= digits_max && text[digits] >= '0' && text[digits] <= '9')
    ++digits;
  if (digits < digits_min || digits > digits_max) return std::nullopt;
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + digits, number);
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<microseconds> duration_of(std::string_view text) {
  struct Unit {
    std::string_view name;
    microseconds length;
  };
  constexpr std::array units{Unit{"ms", std::chrono::milliseconds(1)},
                             Unit{"s", std::chrono::seconds(1)}, Unit{"m", std::chrono::minutes(1)},
                             Unit{"h", std::chrono::hours(1)}, Unit{"d", std::chrono::hours(24)}};
  microseconds total{0};
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto number = take_number(text, 1, 6);
    if (!number) return std::nullopt;
    bool known = false;
    for (const Unit& unit : units) {
      known = take(text, unit.name);
      if (known) total = std::min(total + *number * unit.length, kDurationMax);
      if (known) break;
    }
    if (!known) return std::nullopt;
  }
  return total;
}

/// Take ":00:30.5" off the text: the seconds of a time, if there are any.
bool take_seconds(std::string_view& text, std::tm& parts, microseconds& fraction) {
  if (!take(text, ":")) return true;
  const auto second = take_number(text, 2, 2);
  if (!second || *second > 60) return false;
  parts.tm_sec = static_cast<int>(*second);
  if (!take(text, ".")) return true;
  const std::string_view digits = text;
  const auto number = take_number(text, 1, 6);
  if (!number) return false;
  fraction = microseconds(*number);
  for (std::size_t given = digits.size() - text.size(); given < 6; ++given) fraction *= 10;
  return true;
}

/// Take "Z" or "+01:00" off the text. Return the zone's distance from UTC; nothing: local time.
bool take_zone(std::string_view& text, std::optional<std::chrono::minutes>& zone) {
  if (text.empty()) return true;
  if (take(text, "Z")) {
    zone = std::chrono::minutes(0);
    return true;
  }
  const bool west = text.starts_with('-');
  if (!west && !text.starts_with('+')) return false;
  text.remove_prefix(1);
  const auto hours = take_number(text, 2, 2);
  const bool colon = take(text, ":");
  const auto minutes = take_number(text, 2, 2);
  if (!hours || !colon || !minutes || *hours > 14 || *minutes > 59) return false;
  zone = std::chrono::minutes((west ? -1 : 1) * (*hours * 60 + *minutes));
  return true;
}

std::optional<WallTime> time_of(std::string_view text) {
  std::tm parts{};
  const auto year = take_number(text, 4, 4);
  if (!year || *year < 1970 || *year > kYearMax || !take(text, "-")) return std::nullopt;
  const auto month = take_number(text, 2, 2);
  if (!month || *month < 1 || *month > 12 || !take(text, "-")) return std::nullopt;
  const auto day = take_number(text, 2, 2);
  if (!day || *day < 1 || *day > 31) return std::nullopt;
  microseconds fraction{0};
  std::optional<std::chrono::minutes> zone;
  if (!text.empty()) {
    if (!take(text, "T") && !take(text, " ")) return std::nullopt;
    const auto hour = take_number(text, 2, 2);
    if (!hour || *hour > 23 || !take(text, ":")) return std::nullopt;
    const auto minute = take_number(text, 2, 2);
    if (!minute || *minute > 59) return std::nullopt;
    parts.tm_hour = static_cast<int>(*hour);
    parts.tm_min = static_cast<int>(*minute);
    if (!take_seconds(text, parts, fraction) || !take_zone(text, zone)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  parts.tm_year = static_cast<int>(*year) - 1900;
  parts.tm_mon = static_cast<int>(*month) - 1;
  parts.tm_mday = static_cast<int>(*day);
  parts.tm_isdst = -1;
  std::tm checked = parts;  // the 31st of April becomes the 1st of May there
  if (::timegm(&checked) < 0 || checked.tm_mday != parts.tm_mday) return std::nullopt;
  const std::time_t whole = zone ? ::timegm(&parts) : std::mktime(&parts);
  return std::chrono::system_clock::from_time_t(whole) + fraction -
         zone.value_or(std::chrono::minutes(0));
}

}  // namespace

Result<WallTime> parse_since(std::string_view text, WallTime now) {
  if (const auto duration = duration_of(text)) return now - *duration;
  if (const auto time = time_of(text)) return *time;
  return Error{Errc::InvalidArgument, fmt::format("'{}' is neither a duration nor a time", text),
               "write a duration, such as 30s, 5m, 1h30m or 2d, or a time, such as "
               "2026-11-26T10:00"};
}

}  // namespace train
