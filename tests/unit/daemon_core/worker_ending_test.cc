#include "daemon/supervisor/core/worker_ending.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Next = WorkerEnding::Next;
using Rest = WorkerEnding::Rest;

constexpr TimePoint kDied{seconds(100)};
constexpr Rest kNothing{.output_ended = true};

TEST(WorkerEnding, IsToldWithTheLastLinesAndIsDrainedThen) {
  WorkerEnding ending(kDied);
  EXPECT_EQ(ending.advance(Rest{}, kDied), Next::Wait);
  EXPECT_EQ(ending.next_deadline(Rest{}, kDied), kDied + kOutputDelayMax);

  EXPECT_EQ(ending.advance(kNothing, kDied + milliseconds(1)), Next::TellEnd);
  EXPECT_EQ(ending.advance(kNothing, kDied + milliseconds(1)), Next::Drained);
  EXPECT_EQ(ending.next_deadline(kNothing, kDied), std::nullopt);
}

TEST(WorkerEnding, IsToldWithoutThemAfterAWhile) {
  WorkerEnding ending(kDied);

  EXPECT_EQ(ending.advance(Rest{}, kDied + kOutputDelayMax - milliseconds(1)), Next::Wait);
  EXPECT_EQ(ending.advance(Rest{}, kDied + kOutputDelayMax), Next::TellEnd);
}

TEST(WorkerEnding, IsToldBeforeTheStackOfItsCrashWhichIsWaitedForThen) {
  const Rest unwinding{.output_ended = true, .unwinding = true};
  WorkerEnding ending(kDied);
  ASSERT_EQ(ending.advance(unwinding, kDied), Next::TellEnd);
  EXPECT_EQ(ending.advance(unwinding, kDied + seconds(1)), Next::Wait);
  EXPECT_EQ(ending.next_deadline(unwinding, kDied + seconds(1)), kDied + kCrashStackMax);
  EXPECT_EQ(ending.next_deadline({.unwinding = true}, kDied), kDied + kOutputEndMax);
  EXPECT_EQ(ending.advance(kNothing, kDied + seconds(2)), Next::Drained);

  WorkerEnding endless(kDied);
  ASSERT_EQ(endless.advance(unwinding, kDied), Next::TellEnd);
  EXPECT_EQ(endless.advance(unwinding, kDied + kCrashStackMax), Next::Drained);
  EXPECT_EQ(endless.next_deadline(unwinding, kDied + kCrashStackMax), std::nullopt);
}

TEST(WorkerEnding, PipesThatSomethingKeepsOpenAreGivenUp) {
  WorkerEnding ending(kDied);
  ASSERT_EQ(ending.advance(Rest{}, kDied + kOutputDelayMax), Next::TellEnd);

  EXPECT_EQ(ending.advance(Rest{}, kDied + seconds(1)), Next::Wait);
  EXPECT_EQ(ending.next_deadline(Rest{}, kDied + seconds(1)), kDied + kOutputEndMax);
  EXPECT_EQ(ending.advance(Rest{}, kDied + kOutputEndMax), Next::Drained);
  EXPECT_EQ(ending.next_deadline(Rest{}, kDied + kOutputEndMax), std::nullopt);
}

TEST(WorkerEnding, WhatItsSdkSaidAndItsCheckpointsAreWaitedForWithoutALimit) {
  for (const Rest rest :
       {Rest{.output_ended = true, .connected = true}, Rest{.output_ended = true, .staging = true},
        Rest{.output_ended = false, .connected = true}}) {
    WorkerEnding ending(kDied);
    ASSERT_EQ(ending.advance(rest, kDied + kOutputDelayMax), Next::TellEnd);

    EXPECT_EQ(ending.advance(rest, kDied + seconds(1000)), Next::Wait);
    EXPECT_EQ(ending.next_deadline(rest, kDied + seconds(1000)), std::nullopt);
    EXPECT_EQ(ending.advance(kNothing, kDied + seconds(1000)), Next::Drained);
  }
}

}  // namespace
}  // namespace train
