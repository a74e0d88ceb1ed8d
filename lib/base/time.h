// Time for the cores: a monotonic instant that the caller passes in. Only shells read a clock.
#pragma once

#include <chrono>
#include <string>

namespace train {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// The seam that a simulation replaces: monotonic time for every decision, wall time only for names
/// and logs.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual std::chrono::system_clock::time_point wall() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point wall() const override {
    return std::chrono::system_clock::now();
  }
};

/// Format in RFC 3339, in UTC with microseconds: "2026-11-21T09:38:00.123456Z".
std::string format_utc(std::chrono::system_clock::time_point wall);
/// Parse a text of format_utc(); return the epoch for any other text.
std::chrono::system_clock::time_point parse_utc(const std::string& text);
/// Format for people: "850 ms", "12.3 s", "4 min 5 s", "2 h 3 min".
std::string format_duration(Duration duration);

}  // namespace train
