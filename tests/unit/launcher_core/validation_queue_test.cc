#include "launcher/core/validation_queue.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr NodeId kNode{0}, kOther{1};
using Numbers = std::vector<std::uint64_t>;

CheckpointInfo number(std::uint64_t n) { return {n, "/run/checkpoints/" + std::to_string(n), 0}; }
ValidationQueue board_with(int every, std::uint64_t last) {
  ValidationQueue board(every);
  for (std::uint64_t n = 1; n <= last; ++n) board.add(number(n));
  return board;
}

TEST(ValidationQueue, ValidatesEveryNthTheOldestFirstAndOneAtATime) {
  ValidationQueue board = board_with(/*every=*/2, /*last=*/5);

  EXPECT_EQ(board.begin(kNode), number(2));
  EXPECT_EQ(board.begin(kNode), std::nullopt);
  EXPECT_EQ(board.unfinished(), (Numbers{2, 4}));
  board.finished(2);
  EXPECT_EQ(board.begin(kNode), number(4));
  board.finished(4);
  EXPECT_TRUE(board.idle());
}

TEST(ValidationQueue, ValidatesNothingUnlessItIsAskedFor) {
  EXPECT_TRUE(board_with(/*every=*/0, /*last=*/5).idle());
}

TEST(ValidationQueue, WhatWasLostIsTheNextOneAgain) {
  ValidationQueue board = board_with(1, 2);
  board.begin(kNode);

  board.lost(kOther);
  EXPECT_NE(board.running_on(kNode), nullptr);
  board.lost(kNode);

  EXPECT_EQ(board.running_on(kNode), nullptr);
  EXPECT_EQ(board.begin(kOther), number(1));
}

TEST(ValidationQueue, TheUserIsToldOfTheWaitOnceInAnAttempt) {
  ValidationQueue board = board_with(1, 2);
  board.begin(kNode);
  EXPECT_TRUE(board.says_waiting());
  EXPECT_FALSE(board.says_waiting());

  board.lost(kNode);
  EXPECT_FALSE(board.says_waiting());
  board.begin(kOther);
  board.end_attempt();
  EXPECT_TRUE(board.says_waiting());
  EXPECT_EQ(board.begin(kNode), number(1));
}

TEST(ValidationQueue, AResultCountsWhetherOrNotItWasKnownToRun) {
  ValidationQueue board = board_with(1, 2);  // an earlier launcher's order may run

  board.finished(2);
  board.finished(9);

  EXPECT_EQ(board.unfinished(), Numbers{1});
}

TEST(ValidationQueue, GivesTheOldestUpWhenTooManyWait) {
  ValidationQueue board = board_with(1, 1);
  board.begin(kNode);
  for (std::uint64_t n = 2; n <= kValidationsWaitingMax + 1; ++n)
    EXPECT_EQ(board.add(number(n)), std::nullopt);

  EXPECT_EQ(board.add(number(kValidationsWaitingMax + 2)), number(2));

  EXPECT_EQ(board.unfinished().size(), kValidationsWaitingMax + 1);
  EXPECT_EQ(board.unfinished().front(), 1u);
}

}  // namespace
}  // namespace train
