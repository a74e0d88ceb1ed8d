// How long an ask may take before another ingest worker is asked as well. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace train::data {

class AskTimes {
 public:
  using Duration = std::chrono::steady_clock::duration;
  static constexpr Duration kLeast = std::chrono::seconds(1);
  static constexpr Duration kMost = std::chrono::seconds(60);

  explicit AskTimes(Duration least = kLeast) : least_(least) {}

  /// Count how long a rank was kept waiting for an answer.
  void add(Duration took) {
    times_[next_ % times_.size()] = took;
    ++next_;
  }
  /// Return three times what 99 of 100 answers take, within limits.
  Duration deadline() const {
    auto sorted = times_;
    const std::size_t count = std::min(next_, sorted.size());
    if (count == 0) return least_;
    const std::size_t rank = (count * 99 + 99) / 100 - 1;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(rank),
                     sorted.begin() + static_cast<std::ptrdiff_t>(count));
    return std::clamp(3 * sorted[rank], least_, std::max(least_, kMost));
  }

 private:
  Duration least_;
  std::array<Duration, 256> times_{};
  std::size_t next_ = 0;
};

}  // namespace train::data
