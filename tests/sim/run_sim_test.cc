// Simulated runs by their seeds. `build/bin/train-sim --seed N --nodes M --trace` shows one; more
// seeds: `--seeds 100000`.
#include <gtest/gtest.h>

#include "tests/sim/world.h"

namespace train::sim {
namespace {

void expect_no_violation(const SimOptions& options) {
  const SimResult result = simulate(options);
  EXPECT_EQ(result.violation, "") << result.describe(options);
}

TEST(RunSimulation, EveryInvariantHoldsInThreeThousandSeeds) {
  for (std::uint64_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    expect_no_violation({.seed = seed, .nodes = 1 + static_cast<int>(seed % 6)});
  }
}

TEST(RunSimulation, EveryInvariantHoldsOnManyNodes) {
  for (std::uint64_t seed = 1; seed <= 8 && !HasFailure(); ++seed)
    expect_no_violation({.seed = seed, .nodes = 64});
}

TEST(RunSimulation, TheSameSeedGivesTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const SimOptions options{.seed = seed, .nodes = 1 + static_cast<int>(seed % 6)};

    const SimResult first = simulate(options), second = simulate(options);

    ASSERT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    ASSERT_EQ(first.events, second.events) << "seed " << seed;
  }
}

TEST(RunSimulation, TheSeedsReachEveryEnd) {
  std::map<RunState, int> ends;
  int restarted = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const SimResult result = simulate({.seed = seed, .nodes = 1 + static_cast<int>(seed % 6)});
    ++ends[result.outcome];
    restarted += result.attempts > 1 ? 1 : 0;
  }

  EXPECT_GE(ends[RunState::Finished], 40);
  EXPECT_GE(ends[RunState::Errored], 40);
  EXPECT_GE(ends[RunState::Stopped], 40);
  EXPECT_GE(restarted, 40);
}

// ---- seeds that once found a bug

TEST(RunSimulation, AnAttemptsSupervisorIsNotSpawnedASecondTimeAfterItDied) {
  expect_no_violation({.seed = 1028, .nodes = 1});
}
TEST(RunSimulation, ARunThatEndedWhileALinkWasBrokenLeavesNoSupervisor) {
  expect_no_violation({.seed = 2045, .nodes = 9});
}
TEST(RunSimulation, ASupervisorThatWaitsForNobodyEndsOnce) {
  expect_no_violation({.seed = 1, .nodes = 3});
}

TEST(RunSimulation, AStopWaitsForARankWhoseHelloIsLate) {
  expect_no_violation({.seed = 547, .nodes = 2});
}

TEST(RunSimulation, AStopDoesNotWaitForTheCheckpointOfARankThatHasEnded) {
  expect_no_violation({.seed = 25253, .nodes = 4});
}

// ---- the checkers are checked

class MutantIsFound : public testing::TestWithParam<Mutant> {};

TEST_P(MutantIsFound, WithinOneThousandSeeds) {
  SimOptions options{.seed = 1, .nodes = 3, .mutant = GetParam()};
  while (options.seed <= 1000 && simulate(options).violation.empty()) ++options.seed;

  EXPECT_LE(options.seed, 1000u) << to_string(GetParam()) << " goes unnoticed";
}

INSTANTIATE_TEST_SUITE_P(RunSimulation, MutantIsFound,
                         testing::Values(Mutant::OffByOneRank, Mutant::EpochNotChecked,
                                         Mutant::AckBeforeWrite, Mutant::RestartBeforeGone,
                                         Mutant::BudgetNotCounted, Mutant::PartMissing,
                                         Mutant::ReportsTakenTwice, Mutant::NothingSaidAgain,
                                         Mutant::FramesPassOutOfStep,
                                         Mutant::RestoresOldCheckpoint),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace train::sim
