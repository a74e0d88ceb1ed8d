// Virtual time, the only source of randomness, and the trace of a simulated run. Everything that
// happens is an event on one queue. The same seed gives the same events in the same order, as the
// trace's hash shows.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/time.h"

namespace train::sim {

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same on every platform, unlike the
/// standard's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Return a uniform value in [0, bound); 0 if `bound` is 0.
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

/// What an event does. Up to kInline bytes are stored inline: a run has tens of millions of them.
class Callback {
 public:
  static constexpr std::size_t kInline = 56;

  Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  ~Callback() { clear(); }

  template <class F>
  void set(F&& what) {
    using Function = std::decay_t<F>;
    clear();
    if constexpr (sizeof(Function) <= kInline && alignof(Function) <= alignof(std::max_align_t)) {
      ::new (static_cast<void*>(storage_)) Function(std::forward<F>(what));
      run_ = [](void* at) { (*std::launder(static_cast<Function*>(at)))(); };
      destroy_ = [](void* at) { std::launder(static_cast<Function*>(at))->~Function(); };
    } else {
      ::new (static_cast<void*>(storage_)) Function*(new Function(std::forward<F>(what)));
      run_ = [](void* at) { (**std::launder(static_cast<Function**>(at)))(); };
      destroy_ = [](void* at) { delete *std::launder(static_cast<Function**>(at)); };
    }
  }
  void run() { run_(storage_); }
  void clear() {
    if (destroy_ != nullptr) destroy_(storage_);
    destroy_ = nullptr;
  }

 private:
  alignas(std::max_align_t) std::byte storage_[kInline];
  void (*run_)(void*) = nullptr;
  void (*destroy_)(void*) = nullptr;
};

class Timeline {
 public:
  explicit Timeline(std::uint64_t seed) : random(seed) {}

  TimePoint now() const { return now_; }
  template <class F>
  void after(Duration delay, F&& what) {
    const std::uint32_t slot = take_slot();
    slots_[slot].set(std::forward<F>(what));
    push({now_ + delay, order_++, slot});
  }
  template <class F>
  void at(TimePoint when, F&& what) {
    after(when - now_, std::forward<F>(what));
  }
  /// Run the next event; return false if there is none.
  bool step();

  /// Add a line to the trace. Lines are made only for a reader: we rerun a run that went wrong.
  template <class... A>
  void trace(fmt::format_string<A...> format, A&&... values) {
    if (recording) add_line(fmt::format(format, std::forward<A>(values)...));
  }
  std::uint64_t hash() const { return hash_; }
  std::uint64_t events() const { return events_; }
  std::size_t pending() const { return queue_.size(); }
  std::string tail() const;

  Random random;
  bool recording = false;
  bool print = false;  // print every line immediately

 private:
  struct Entry {
    TimePoint at;
    std::uint64_t order = 0;
    std::uint32_t slot = 0;
    bool before(const Entry& other) const {
      return at != other.at ? at < other.at : order < other.order;
    }
  };
  std::uint32_t take_slot();
  void push(const Entry& entry);
  Entry pop();
  void add_line(std::string line);

  TimePoint now_{seconds(1)};
  std::uint64_t order_ = 0, events_ = 0;
  std::vector<Entry> queue_;    // a heap with four children per entry
  std::deque<Callback> slots_;  // a deque: a running callback stays in place while more are added
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t hash_ = 14695981039346656037u;  // over the times and the order of all events
  std::deque<std::string> lines_;
};

}  // namespace train::sim
