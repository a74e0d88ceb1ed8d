// Virtual time, the one source of randomness, and the trace of a simulated run. Everything that
// happens is an event on one queue; the same seed gives the same events in the same order, which
// the trace's hash shows.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace train::sim {

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same on every platform, unlike the
/// standard's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Uniform in [0, bound); 0 for 0.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  Duration between(Duration low, Duration high);
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

class Timeline {
 public:
  explicit Timeline(std::uint64_t seed) : random(seed) {}

  TimePoint now() const { return now_; }
  void after(Duration delay, std::function<void()> what);
  /// Run the next event; false when there is none.
  bool step();

  template <class... A>
  void trace(fmt::format_string<A...> format, A&&... values) {
    add_line(fmt::format(format, std::forward<A>(values)...));
  }
  std::uint64_t hash() const { return hash_; }
  std::uint64_t events() const { return order_; }
  std::string tail() const;

  Random random;
  bool print = false;  // every line at once

 private:
  struct Event {
    TimePoint at;
    std::uint64_t order = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  void add_line(std::string line);

  TimePoint now_{seconds(1)};
  std::uint64_t order_ = 0;
  std::priority_queue<Event> queue_;
  std::uint64_t hash_ = 14695981039346656037u;  // FNV-1a
  std::deque<std::string> lines_;
};

}  // namespace train::sim
