// This file limits how much of a file may be under way at a time: enough to fill a fast link, and
// little enough that other traffic on a slow link does not wait long behind it. Pure.
#pragma once

#include <cstddef>

#include "lib/base/time.h"

namespace train {

inline constexpr std::size_t kPieceBytesMax = 256u << 10;
inline constexpr std::size_t kPieceBytesMin = 32u << 10;
inline constexpr std::size_t kWindowBytesMax = 4u << 20;   // 1 ms away: 4 GB/s
inline constexpr Duration kPieceFast = milliseconds(100);  // then there may be more
inline constexpr Duration kPieceSlow = milliseconds(400);  // then there must be less

class TransferWindow {
 public:
  /// Return how many bytes may be requested and not on disk yet.
  std::size_t bytes() const { return bytes_; }
  /// Return how many bytes one answer may have.
  std::size_t piece_bytes() const;
  /// Adapt to an answer of this size that took so long.
  void on_answer(std::size_t bytes, Duration took);
  /// Begin with little again: the link is new, or nothing came over it.
  void restart() { bytes_ = kStart; }

 private:
  static constexpr std::size_t kStart = 4 * kPieceBytesMin;

  std::size_t bytes_ = kStart;
  std::size_t until_next_cut_ = 0;  // answers to what was asked for before the last cut
};

}  // namespace train
