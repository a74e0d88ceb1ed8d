// The sampled allocations that have not been freed, by address. It is asked at each free() of the
// program, by all threads, so it takes no lock and no memory: a fixed number of places, in buckets
// of one cache line. What finds no place is not watched.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace train::sdk {

class LiveSamples {
 public:
  struct Sample {
    std::uint64_t bytes = 0;  // that it stands for
    std::uint32_t stack = 0;
  };

  /// Add an allocation that its caller does not know of yet. Return false if it finds no place.
  bool add(const void* address, const Sample& sample) {
    const std::size_t bucket = bucket_of(address);
    for (std::size_t way = 0; way < kWays; ++way) {
      std::uintptr_t nothing = kNothing;
      if (!keys_[bucket][way].compare_exchange_strong(nothing, kBusy, std::memory_order_acquire))
        continue;
      samples_[bucket][way] = sample;
      keys_[bucket][way].store(number_of(address), std::memory_order_release);
      return true;
    }
    return false;
  }
  /// Remove an allocation that its owner is about to free. Nothing: it is no sample.
  std::optional<Sample> take(const void* address) {
    const std::size_t bucket = bucket_of(address);
    const std::uintptr_t wanted = number_of(address);
    for (std::size_t way = 0; way < kWays; ++way) {
      if (keys_[bucket][way].load(std::memory_order_acquire) != wanted) continue;
      const Sample found = samples_[bucket][way];
      std::uintptr_t still = wanted;  // a program may free one address twice at a time
      if (!keys_[bucket][way].compare_exchange_strong(still, kNothing, std::memory_order_acq_rel))
        continue;
      return found;
    }
    return std::nullopt;
  }

  static constexpr std::size_t kWays = 8, kBuckets = 8192;

 private:
  static constexpr std::uintptr_t kNothing = 0, kBusy = 1;
  static std::uintptr_t number_of(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  static std::size_t bucket_of(const void* address) {
    // Addresses are multiples of 16. The multiplication (Knuth's) spreads them over the high bits.
    return static_cast<std::size_t>(((number_of(address) >> 4) * 0x9e3779b97f4a7c15u) >> 51);
  }
  static_assert(kBuckets == std::size_t{1} << (64 - 51));

  // Zeros are a valid empty table.
  alignas(64) std::array<std::array<std::atomic<std::uintptr_t>, kWays>, kBuckets> keys_;
  std::array<std::array<Sample, kWays>, kBuckets> samples_;
};

}  // namespace train::sdk
