#include "lib/transfer/transfer_window.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(TransferWindow, GrowsOverAFastLinkToItsLimit) {
  TransferWindow window;
  const std::size_t first = window.bytes();

  for (int i = 0; i < 1000; ++i) window.on_answer(window.piece_bytes(), milliseconds(1));

  EXPECT_LT(first, kWindowBytesMax);
  EXPECT_EQ(window.bytes(), kWindowBytesMax);
  EXPECT_EQ(window.piece_bytes(), kPieceBytesMax);
}

TEST(TransferWindow, IsHalvedOnceForAllAnswersOfOneRoundOverASlowLink) {
  TransferWindow window;
  for (int i = 0; i < 1000; ++i) window.on_answer(window.piece_bytes(), milliseconds(1));

  for (int i = 0; i < 16; ++i) window.on_answer(kPieceBytesMax, seconds(2));

  EXPECT_EQ(window.bytes(), kWindowBytesMax / 2);
}

TEST(TransferWindow, KeepsOnePieceHoweverSlowItIs) {
  TransferWindow window;

  for (int i = 0; i < 1000; ++i) window.on_answer(window.piece_bytes(), seconds(9));

  EXPECT_EQ(window.bytes(), kPieceBytesMin);
  EXPECT_EQ(window.piece_bytes(), kPieceBytesMin);
}

TEST(TransferWindow, StaysAsItIsInBetween) {
  TransferWindow window;
  const std::size_t before = window.bytes();

  window.on_answer(window.piece_bytes(), (kPieceFast + kPieceSlow) / 2);

  EXPECT_EQ(window.bytes(), before);
}

}  // namespace
}  // namespace train
