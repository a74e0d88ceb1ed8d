// Parses moments in the past, as `logs --since` takes them. Uses the local time zone; otherwise
// pure.
#pragma once

#include <chrono>
#include <string_view>

#include "lib/base/result.h"

namespace train {

/// Parse "90s", "5m", "1h30m" or "2d" as so long before `now`, and "2026-11-26",
/// "2026-11-26T10:00", "2026-11-26 10:00:30.5" as local time; with "Z" or "+01:00" behind it, as a
/// time of that zone.
Result<std::chrono::system_clock::time_point> parse_since(
    std::string_view text, std::chrono::system_clock::time_point now);

}  // namespace train
