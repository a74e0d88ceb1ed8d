// How much of a file may be under way at a time: enough that a fast link is full, and little enough
// that what else travels over a slow one does not wait long behind it. Pure.
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
  /// That may be asked for and not be on disk yet.
  std::size_t bytes() const { return bytes_; }
  /// In one answer.
  std::size_t piece_bytes() const;
  /// An answer of this size took so long.
  void on_answer(std::size_t bytes, Duration took);
  /// Over a new link, or one from which nothing came: begin with little.
  void restart() { bytes_ = kStart; }

 private:
  static constexpr std::size_t kStart = 4 * kPieceBytesMin;

  std::size_t bytes_ = kStart;
  std::size_t until_next_cut_ = 0;  // answers to what was asked for before the last cut
};

}  // namespace train
