// This file limits how many bytes may be requested at a time: enough to fill a fast link, and few
// enough that other traffic on a slow link does not wait long behind them. Pure.
#pragma once

#include <cstddef>

#include "lib/base/time.h"

namespace train {

inline constexpr std::size_t kPieceBytesMax = 256u << 10;
inline constexpr std::size_t kPieceBytesMin = 32u << 10;
inline constexpr std::size_t kWindowBytesMax = 4u << 20;   // with a round trip of 1 ms: 4 GB/s
inline constexpr Duration kPieceFast = milliseconds(100);  // below: the window grows
inline constexpr Duration kPieceSlow = milliseconds(400);  // above: the window shrinks

class TransferWindow {
 public:
  /// Return how many bytes may be requested but not yet on disk.
  std::size_t bytes() const { return bytes_; }
  /// Return how many bytes one request should ask for.
  std::size_t piece_bytes() const;
  /// Adapt to the size of an answer and the time that it took.
  void on_answer(std::size_t bytes, Duration took);
  /// Begin small again: the link is new, or nothing arrived on it.
  void restart() { bytes_ = kStart; }

 private:
  static constexpr std::size_t kStart = 4 * kPieceBytesMin;

  std::size_t bytes_ = kStart;
  std::size_t until_next_cut_ = 0;  // bytes that were requested before the last cut
};

}  // namespace train
