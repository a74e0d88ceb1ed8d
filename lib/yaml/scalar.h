// This file interprets a scalar's text: the YAML 1.2 core schema (so `no` is a word and 012 is
// twelve), durations and sizes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"

namespace train::yaml {

bool is_core_null(std::string_view text);
std::optional<bool> core_bool(std::string_view text);
/// A number written as an integer: decimal, 0o17 or 0xff. `too_large` is set if only its size is
/// wrong.
struct CoreInteger {
  bool negative = false;
  std::uint64_t magnitude = 0;
  bool too_large = false;
  std::optional<std::int64_t> as_int64() const;
};
std::optional<CoreInteger> core_integer(std::string_view text);
/// Parse any number, including .inf and .nan.
std::optional<double> core_number(std::string_view text);

/// Parse "500ms", "30s", "1.5h" or "2d". Return nothing if the text is no duration, or not a whole
/// number of milliseconds.
std::optional<Duration> parse_duration(std::string_view text);
/// Format a duration of whole milliseconds in the largest unit that divides it: "90s", "2h".
std::string format_duration_yaml(Duration duration);

/// Parse "512MiB", "16GiB", "1GB" (10^9) or "100" as bytes. Return nothing if the text is no size,
/// is not a whole number of bytes, or is 2^63 or more.
std::optional<std::uint64_t> parse_size(std::string_view text);
std::string format_size_yaml(std::uint64_t bytes);

/// Format a number as a float that core_number reads back exactly: "10.0", "1e-05".
std::string format_number_yaml(double number);

}  // namespace train::yaml
