// Runs simulations of fixed seeds. `build/bin/train-sim --seed N --nodes M --trace` shows one; for
// more seeds, use `make sim SEEDS=10000`.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>

#include "tests/sim/world.h"

namespace train::sim {
namespace {

void expect_no_violation(const SimOptions& options) {
  const SimResult result = simulate(options);
  EXPECT_EQ(result.violation, "") << result.describe(options);
}

TEST(RunSimulation, EveryInvariantHoldsOnAFewNodes) {
  for (std::uint64_t seed = 1; seed <= 1500 && !HasFailure(); ++seed)
    expect_no_violation({.seed = seed, .nodes = 1 + static_cast<int>(seed % 6)});
}

TEST(RunSimulation, EveryInvariantHoldsOnManyNodes) {
  for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed)
    expect_no_violation({.seed = seed, .nodes = 64});
}

TEST(RunSimulation, EveryInvariantHoldsOnAThousandNodes) {
  expect_no_violation({.seed = 1, .nodes = 1024});
}

TEST(RunSimulation, TheSameSeedGivesTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const SimOptions options{.seed = seed, .nodes = 1 + static_cast<int>(seed % 6)};

    const SimResult first = simulate(options), second = simulate(options);

    ASSERT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    ASSERT_EQ(first.events, second.events) << "seed " << seed;
  }
}

TEST(RunSimulation, OtherWallClocksChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed)
    expect_no_violation(
        {.seed = seed, .nodes = 1 + static_cast<int>(seed % 6), .wall_clocks = true});
}

TEST(RunSimulation, TheSeedsReachEveryEndAndEveryUnluckyTurn) {
  std::map<RunState, int> ends;
  int restarted = 0, from_standby = 0, hung = 0, calm = 0;
  std::uint32_t fired = 0;
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    const SimResult result = simulate({.seed = seed, .nodes = 1 + static_cast<int>(seed % 6)});
    ++ends[result.outcome];
    restarted += result.attempts > 1 ? 1 : 0;
    from_standby += result.from_standby > 0 ? 1 : 0;
    hung += result.groups_that_hung > 0 ? 1 : 0;
    calm += result.rosters_compared > 0 ? 1 : 0;
    fired |= result.sites_fired;
  }

  EXPECT_GE(ends[RunState::Finished], 40);
  EXPECT_GE(ends[RunState::Errored], 40);
  EXPECT_GE(ends[RunState::Stopped], 40);
  EXPECT_GE(restarted, 40);
  EXPECT_GE(from_standby, 40);
  EXPECT_GE(hung, 40);
  EXPECT_GE(calm, 40);
  EXPECT_EQ(fired, (1u << kSites) - 1);
}

TEST(RunSimulation, TheSwarmHasEverySize) {
  std::map<int, int> sizes;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) ++sizes[swarm_nodes(seed)];

  EXPECT_GE(sizes[4096], 1);
  EXPECT_GE(sizes[1024], 50);
  EXPECT_GE(sizes[64], 1);
  EXPECT_GE(sizes[1], 50);
}

TEST(TrainSim, FailsWhereItCannotStartItsProcesses) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit files{4, 4};  // not enough for a pipe
    ::close(3);
    ::setrlimit(RLIMIT_NOFILE, &files);
    ::execl(TRAIN_SIM, TRAIN_SIM, "--seeds", "4", "--nodes", "1", "--jobs", "2", nullptr);
    ::_exit(99);
  }

  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// ---- the checkers are checked

struct Found {
  Mutant mutant{};
  std::string_view by;  // the invariant that must find it
};

class MutantIsFound : public testing::TestWithParam<Found> {};

TEST_P(MutantIsFound, WithinFiveThousandSeeds) {
  std::map<std::string, std::uint64_t> found_by;
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    const SimResult result = simulate({.seed = seed,
                                       .nodes = 1 + static_cast<int>(seed % 4),
                                       .mutant = GetParam().mutant,
                                       .wall_clocks = true});
    if (result.violation.empty()) continue;
    const std::string by = result.violation.substr(0, result.violation.find(':'));
    found_by.try_emplace(by, seed);
    if (by == GetParam().by) return;
  }

  std::string others;
  for (const auto& [by, seed] : found_by) others += fmt::format(" {} (seed {})", by, seed);
  FAIL() << to_string(GetParam().mutant) << " goes unnoticed by " << GetParam().by
         << "; found by:" << others;
}

INSTANTIATE_TEST_SUITE_P(
    RunSimulation, MutantIsFound,
    testing::Values(
        Found{Mutant::GenerationNotChecked, "S1"}, Found{Mutant::RestartBeforeGone, "S2"},
        Found{Mutant::OrphansForgotten, "S2"}, Found{Mutant::OffByOneRank, "S3"},
        Found{Mutant::BarrierOpensEarly, "S4"}, Found{Mutant::CheckpointNumberTwice, "S5"},
        Found{Mutant::RestoresOldCheckpoint, "S6"}, Found{Mutant::ShardMissing, "S7"},
        Found{Mutant::ShardOfAnotherStep, "S7"}, Found{Mutant::ConditionForgotten, "L2"},
        Found{Mutant::AckBeforeWrite, "S8"}, Found{Mutant::ReportsTakenTwice, "S8"},
        Found{Mutant::NothingSaidAgain, "L1"}, Found{Mutant::FramesPassOutOfStep, "S8"},
        Found{Mutant::BudgetNotCounted, "S10"}, Found{Mutant::WrongEnd, "S11"},
        Found{Mutant::WindowNotKept, "S12"}, Found{Mutant::WallClockInTimers, "S14"},
        Found{Mutant::DeadlinesForgotten, "L1"}, Found{Mutant::KillNotSent, "L2"},
        Found{Mutant::SuspectIsDead, "L3"}, Found{Mutant::VerdictIsEarly, "L3"},
        Found{Mutant::SilenceIsNoTimeout, "L3"}, Found{Mutant::AcksForgotten, "L4"},
        Found{Mutant::JournalNotSynced, "S2"}, Found{Mutant::ValidationForgotten, "L5"},
        Found{Mutant::GenerationNotRaised, "S1"}, Found{Mutant::LackOfSpaceForgotten, "S15"},
        Found{Mutant::CheckpointOnArrival, "S16"}, Found{Mutant::RoomIsAFailure, "S17"},
        Found{Mutant::LeavesAreEnds, "S11"}, Found{Mutant::ReturnedNodeTrusted, "S2"},
        Found{Mutant::BudgetCutShort, "S10"}, Found{Mutant::SamplesForgotten, "L6"},
        Found{Mutant::HangsObserved, "L6"}, Found{Mutant::StuckLookAsleep, "L6"},
        Found{Mutant::WaitersAccused, "S18"}, Found{Mutant::SignsForgotten, "S18"},
        Found{Mutant::PhaseLimitForgotten, "S18"}, Found{Mutant::EndBeforeReports, "L4"},
        Found{Mutant::RunsPastTheQuestion, "S16"}, Found{Mutant::AnotherCheckpointNamed, "S19"},
        Found{Mutant::RosterOfAnotherAttempt, "S21"}, Found{Mutant::RosterNotRepeated, "L8"},
        Found{Mutant::ServingForgotten, "L8"}, Found{Mutant::TimeBookedTwice, "S20"},
        Found{Mutant::AnswersForgotten, "L7"}, Found{Mutant::PaceNotKept, "S22"},
        Found{Mutant::PaceOutlivesDriver, "L1"}, Found{Mutant::PaceOutlivesRank, "L4"}),
    [](const auto& info) { return std::string(to_string(info.param.mutant)); });

}  // namespace
}  // namespace train::sim
