// Keeps what others can cause from filling the log: so many lines a second, and then how many there
// would have been. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/time.h"

namespace train {

class LogLimit {
 public:
  explicit LogLimit(int lines_a_second) : lines_(lines_a_second) {}

  /// Whether this line is to be written; then, how many were left out since the last one.
  std::optional<std::uint64_t> allow(TimePoint now) {
    if (now >= second_ + std::chrono::seconds(1)) {
      second_ = now;
      written_ = 0;
    }
    if (written_ == lines_) {
      ++left_out_;
      return std::nullopt;
    }
    ++written_;
    return std::exchange(left_out_, 0);
  }

 private:
  const int lines_;
  int written_ = 0;
  std::uint64_t left_out_ = 0;
  TimePoint second_ = TimePoint::min();
};

}  // namespace train
