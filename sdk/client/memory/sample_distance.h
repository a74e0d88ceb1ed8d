// Decides which allocations are samples, as a Poisson process over bytes: each byte begins a sample
// with the same small probability, whatever the sizes and the order of allocations. So each sample
// stands for a known number of bytes on average, and sums of them are unbiased. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace train::sdk {

/// The bytes of a thread until its next sample. Zero-initialized, since it is thread-local and must
/// not need a constructor.
struct SampleDistance {
  std::int64_t bytes_left;
  std::uint64_t random;

  /// Begin anew, with a seed that no other thread has.
  void begin(std::uint64_t seed, std::uint64_t mean_bytes) {
    random = seed;
    bytes_left = next(mean_bytes);
  }
  /// Count an allocation. Return whether it is a sample.
  bool take(std::size_t bytes, std::uint64_t mean_bytes) {
    bytes_left -= static_cast<std::int64_t>(std::min(bytes, kBytesMax));
    if (bytes_left > 0) return false;
    bytes_left = next(mean_bytes);
    return true;
  }

  static constexpr std::size_t kBytesMax = std::size_t{1} << 60;

 private:
  /// Draw from the exponential distribution.
  std::int64_t next(std::uint64_t mean_bytes) {
    random += 0x9e3779b97f4a7c15;  // splitmix64, by Sebastiano Vigna, public domain
    std::uint64_t mixed = random;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
    const double unit = (static_cast<double>(mixed >> 11) + 1) * 0x1p-53;  // more than 0, at most 1
    return static_cast<std::int64_t>(-std::log(unit) * static_cast<double>(mean_bytes)) + 1;
  }
};

/// Return how many bytes a sample of this size stands for: its size, divided by the probability
/// that an allocation of this size is a sample.
inline std::uint64_t sample_weight(std::size_t bytes, std::uint64_t mean_bytes) {
  const double size =
      static_cast<double>(std::clamp<std::size_t>(bytes, 1, SampleDistance::kBytesMax));
  const double probability = -std::expm1(-size / static_cast<double>(mean_bytes));
  return static_cast<std::uint64_t>(std::llround(size / probability));
}

}  // namespace train::sdk
