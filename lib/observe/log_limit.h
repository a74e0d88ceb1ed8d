// A LogLimit prevents events that others can cause from filling the log: it allows a number of
// lines per second, and counts the rest. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/time.h"

namespace train {

class LogLimit {
 public:
  explicit LogLimit(int lines_a_second) : lines_(lines_a_second) {}

  /// Return nothing if this line must not be written, else how many lines were left out since the
  /// last one that was.
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
