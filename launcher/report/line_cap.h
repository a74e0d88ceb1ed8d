// Limits how many lines are shown a second. Pure. In each second that begins with a line, the first
// lines are shown and the rest is counted; what was counted is told once the second is over. So a
// flood stays readable, and costs one line more a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/time.h"

namespace train {

class LineCap {
 public:
  static constexpr Duration kEvery = seconds(1);
  static constexpr std::size_t kCostBytes = 1024;  // a line costs one more for each of these

  /// `lines_max`: that are shown a second; 0: all.
  explicit LineCap(std::uint64_t lines_max = 0) : lines_max_(lines_max) {}

  /// Return whether to show a line of so many bytes; if not, count it as `lines`. Take the count of
  /// the second before first.
  bool take(std::size_t bytes, std::uint64_t lines, TimePoint now) {
    if (lines_max_ == 0) return true;
    if (now - began_.value_or(now - kEvery) >= kEvery) began_ = now, used_ = 0;
    if (used_ < lines_max_) {
      used_ += 1 + bytes / kCostBytes;
      return true;
    }
    dropped_ += lines;
    return false;
  }
  /// Return when the count is due; nothing if nothing is counted.
  std::optional<TimePoint> deadline() const {
    return dropped_ > 0 ? std::optional(*began_ + kEvery) : std::nullopt;
  }
  bool is_due(TimePoint now) const { return dropped_ > 0 && now - *began_ >= kEvery; }
  /// Return how many lines were not shown, and forget them.
  std::uint64_t take_dropped() { return std::exchange(dropped_, 0); }

 private:
  std::uint64_t lines_max_ = 0, used_ = 0, dropped_ = 0;
  std::optional<TimePoint> began_;
};

/// Return "12,345".
std::string with_commas(std::uint64_t number);

}  // namespace train
