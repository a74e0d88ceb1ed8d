#include "sdk/client/checkpoint_gate.h"

#include <gtest/gtest.h>

namespace train::sdk {
namespace {

constexpr CheckpointOrder ask(std::uint64_t request) { return {.request = request}; }
constexpr CheckpointOrder make_at_report(std::uint64_t request, std::uint64_t report_seq) {
  return {.request = request, .step = CheckpointStep::Make, .report_seq = report_seq};
}
constexpr CheckpointOrder make_at_call(std::uint64_t request, std::uint64_t call) {
  return {.request = request, .step = CheckpointStep::Make, .call = call};
}
constexpr CheckpointOrder cancel(std::uint64_t request) {
  return {.request = request, .step = CheckpointStep::Cancel};
}

TEST(CheckpointGate, HoldsFromTheQuestionToTheDecision) {
  CheckpointGate gate;
  EXPECT_FALSE(gate.holds());
  EXPECT_TRUE(gate.order(ask(1)));
  EXPECT_TRUE(gate.holds());
  EXPECT_FALSE(gate.order(make_at_report(1, 7)));
  EXPECT_FALSE(gate.holds());
  EXPECT_EQ(gate.take_report(6), 0u);
  EXPECT_EQ(gate.take_report(7), 1u);
  EXPECT_EQ(gate.take_report(7), 0u);  // once
}

TEST(CheckpointGate, CountsCallsApartFromReports) {
  CheckpointGate gate;
  gate.order(ask(1));
  gate.order(make_at_call(1, 3));
  EXPECT_EQ(gate.take_report(3), 0u);
  EXPECT_EQ(gate.take_call(2), 0u);
  EXPECT_EQ(gate.take_call(3), 1u);
}

TEST(CheckpointGate, ACancelledRequestMakesNoCheckpoint) {
  CheckpointGate gate;
  gate.order(ask(1));
  gate.order(cancel(1));
  EXPECT_FALSE(gate.holds());
  EXPECT_FALSE(gate.order(make_at_report(1, 3)));
  EXPECT_EQ(gate.take_report(3), 0u);
}

// A broken link makes a launcher say its newest order again.
TEST(CheckpointGate, ARepeatedQuestionIsAnsweredAgainUntilTheDecision) {
  CheckpointGate gate;
  EXPECT_TRUE(gate.order(ask(1)));
  EXPECT_TRUE(gate.order(ask(1)));
  gate.order(make_at_report(1, 3));
  EXPECT_FALSE(gate.order(ask(1)));
  EXPECT_FALSE(gate.holds());
  gate.order(make_at_report(1, 3));
  EXPECT_EQ(gate.take_report(3), 1u);
  EXPECT_EQ(gate.take_report(3), 0u);
}

// The launcher died after its decision. The next one does not know whether that place is reached.
TEST(CheckpointGate, AnotherRequestLeavesAnEarlierDecisionStanding) {
  CheckpointGate gate;
  gate.order(ask(1));
  gate.order(make_at_report(1, 5));
  gate.order(ask(2));
  gate.order(make_at_report(2, 9));
  EXPECT_EQ(gate.take_report(5), 1u);
  EXPECT_EQ(gate.take_report(9), 2u);
}

// The next launcher asked at once, so both decisions are about the same place.
TEST(CheckpointGate, OneCheckpointAnswersTwoRequestsForTheSamePlace) {
  CheckpointGate gate;
  gate.order(ask(1));
  gate.order(make_at_report(1, 5));
  gate.order(ask(2));
  gate.order(make_at_report(2, 5));
  EXPECT_EQ(gate.take_report(5), 2u);
  EXPECT_EQ(gate.take_report(5), 0u);
}

// A program that was not asked has not promised to wait.
TEST(CheckpointGate, WhoWasNotAskedTakesNoPart) {
  CheckpointGate gate;
  EXPECT_FALSE(gate.order(make_at_report(4, 2)));
  EXPECT_EQ(gate.take_report(2), 0u);
}

}  // namespace
}  // namespace train::sdk
