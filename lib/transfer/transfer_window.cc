#include "lib/transfer/transfer_window.h"

#include <algorithm>

namespace train {

std::size_t TransferWindow::piece_bytes() const {
  return std::clamp(bytes_ / 4, kPieceBytesMin, kPieceBytesMax);
}

// The window doubles within one round of answers while they are fast, and is halved once per round
// while they are slow.
void TransferWindow::on_answer(std::size_t bytes, Duration took) {
  const std::size_t waited = std::min(until_next_cut_, bytes);
  until_next_cut_ -= waited;
  if (took < kPieceFast) {
    bytes_ = std::min(bytes_ + bytes, kWindowBytesMax);
  } else if (took > kPieceSlow && until_next_cut_ == 0) {
    until_next_cut_ = bytes_;
    bytes_ = std::max(bytes_ / 2, kPieceBytesMin);
  }
}

}  // namespace train
