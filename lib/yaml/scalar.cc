#include "lib/yaml/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace train::yaml {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && digit(text[end])) ++end;
  return end - from;
}

/// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?   (YAML 1.2.2,
/// section 10.3.2)
bool is_core_float(std::string_view text) {
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::size_t whole = digits(text, at);
  at += whole;
  if (at < text.size() && text[at] == '.') {
    const std::size_t fraction = digits(text, at + 1);
    if (whole == 0 && fraction == 0) return false;
    at += 1 + fraction;
  } else if (whole == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const std::size_t exponent = digits(text, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == text.size();
}

/// Return whether a number that no double holds is too large, and not too close to 0.
bool is_too_large(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::string_view mantissa = text.substr(0, e);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  std::string_view exponent_text = text.substr(std::min(e + 1, text.size()));
  const bool negative = exponent_text.starts_with('-');
  if (negative || exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto [end, error] =
      std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  constexpr std::int64_t kHuge = 1'000'000'000'000;  // more than there can be digits
  if (error == std::errc::result_out_of_range || exponent > kHuge) return !negative;
  const auto whole_digits = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  return whole_digits + (negative ? -exponent : exponent) > 0;
}

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kDurationUnits{Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000},
                                    Unit{"h", 3'600'000}, Unit{"d", 86'400'000}};
constexpr std::array kSizeUnits{Unit{"", 1},
                                Unit{"B", 1},
                                Unit{"kB", 1000},
                                Unit{"KB", 1000},
                                Unit{"MB", 1000'000},
                                Unit{"GB", 1000'000'000},
                                Unit{"TB", 1000'000'000'000},
                                Unit{"KiB", 1ull << 10},
                                Unit{"MiB", 1ull << 20},
                                Unit{"GiB", 1ull << 30},
                                Unit{"TiB", 1ull << 40}};
constexpr std::size_t kFractionDigitsMax = 6;  // times the largest unit, it still fits 64 bits
// Ten years; in nanoseconds it fits 63 bits.
constexpr std::uint64_t kDurationMsMax = 10ull * 365 * 86'400'000;

/// Convert a text such as "1.5h" to a whole number of the smallest unit. Uses no floating point, so
/// that 0.1s is exactly 100 ms.
template <std::size_t n>
std::optional<std::uint64_t> parse_with_unit(std::string_view text,
                                             const std::array<Unit, n>& units, std::uint64_t max) {
  const std::size_t whole = digits(text, 0);
  if (whole == 0 || whole > 18) return {};
  std::size_t fraction = 0;
  if (whole < text.size() && text[whole] == '.') {
    fraction = digits(text, whole + 1);
    if (fraction == 0 || fraction > kFractionDigitsMax) return {};
  }
  const std::string_view unit = text.substr(whole + (fraction > 0 ? fraction + 1 : 0));
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + whole, number);
  for (const Unit& u : units) {
    if (u.name != unit) continue;
    if (number > max / u.factor) return {};
    std::uint64_t share = 0;  // of the decimals
    std::uint64_t power = 1;
    for (std::size_t i = 0; i < fraction; ++i) {
      share = share * 10 + static_cast<std::uint64_t>(text[whole + 1 + i] - '0');
      power *= 10;
    }
    if (share * u.factor % power != 0) return {};
    const std::uint64_t total = number * u.factor + share * u.factor / power;
    return total <= max ? std::optional(total) : std::nullopt;
  }
  return {};
}

}  // namespace

bool is_core_null(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::optional<bool> core_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return {};
}

std::optional<std::int64_t> CoreInteger::as_int64() const {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (too_large || magnitude > kMax + (negative ? 1 : 0)) return {};
  if (!negative) return static_cast<std::int64_t>(magnitude);
  return magnitude == kMax + 1 ? std::numeric_limits<std::int64_t>::min()
                               : -static_cast<std::int64_t>(magnitude);
}

std::optional<CoreInteger> core_integer(std::string_view text) {
  CoreInteger number;
  int base = 10;
  if (text.starts_with("0o") || text.starts_with("0x")) {
    base = text[1] == 'o' ? 8 : 16;
    text.remove_prefix(2);
  } else if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    number.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || text[0] == '-' || text[0] == '+') return {};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number.magnitude, base);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return {};
  number.too_large = error == std::errc::result_out_of_range;
  return number;
}

std::optional<double> core_number(std::string_view text) {
  std::string_view unsigned_text = text;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) unsigned_text.remove_prefix(1);
  if (unsigned_text == ".inf" || unsigned_text == ".Inf" || unsigned_text == ".INF") {
    return negative ? -std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::infinity();
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN")
    return std::numeric_limits<double>::quiet_NaN();
  if (!is_core_float(text)) {
    const auto integer = core_integer(text);
    if (!integer || integer->too_large) return {};
    return static_cast<double>(integer->magnitude) * (integer->negative ? -1 : 1);
  }
  double number = 0;
  const auto [end, error] =
      std::from_chars(unsigned_text.data(), unsigned_text.data() + unsigned_text.size(), number);
  if (error == std::errc::result_out_of_range)
    number = is_too_large(unsigned_text) ? std::numeric_limits<double>::infinity() : 0;
  return negative ? -number : number;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto ms = parse_with_unit(text, kDurationUnits, kDurationMsMax);
  if (!ms) return {};
  return milliseconds(*ms);
}

std::string format_duration_yaml(Duration duration) {
  const auto ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(duration).count());
  if (ms == 0) return "0s";
  if (ms % 3'600'000 == 0) return fmt::format("{}h", ms / 3'600'000);
  if (ms % 60'000 == 0) return fmt::format("{}m", ms / 60'000);
  if (ms % 1000 == 0) return fmt::format("{}s", ms / 1000);
  return fmt::format("{}ms", ms);
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  return parse_with_unit(text, kSizeUnits,
                         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}

std::string format_size_yaml(std::uint64_t bytes) {
  if (bytes == 0) return "0";
  for (const Unit& unit : {Unit{"TiB", 1ull << 40}, Unit{"GiB", 1ull << 30},
                           Unit{"MiB", 1ull << 20}, Unit{"KiB", 1ull << 10}}) {
    if (bytes % unit.factor == 0) return fmt::format("{}{}", bytes / unit.factor, unit.name);
  }
  return fmt::format("{}", bytes);
}

std::string format_number_yaml(double number) {
  if (std::isnan(number)) return ".nan";
  if (std::isinf(number)) return number < 0 ? "-.inf" : ".inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace train::yaml
