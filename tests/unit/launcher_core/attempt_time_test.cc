// What the time of an attempt's workers was used for.
#include "launcher/core/attempt_time.h"

#include <gtest/gtest.h>

#include <random>

namespace train {
namespace {

constexpr TimePoint kBegan{seconds(1000)};
using End = AttemptTime::End;

/// A worker's progress: closed seconds by phase, and the silence in the present one.
WorkerProgress progress(Phase phase, std::map<Phase, int> closed, int quiet = 0,
                        std::vector<HandedOverCheckpoint> handed_over = {}) {
  WorkerProgress progress{.phase = phase, .quiet_us = std::int64_t{1'000'000} * quiet, .signs = 1};
  progress.intervals.resize(kPhases.size());
  for (const auto& [in, time] : closed)
    progress.intervals[static_cast<std::size_t>(in)] = {1, std::int64_t{1'000'000} * time, 0};
  progress.handed_over = std::move(handed_over);
  return progress;
}

TimeAccounts of(std::map<TimeUse, int> times) {
  TimeAccounts accounts;
  for (const auto& [use, time] : times) accounts[use] = seconds(time);
  return accounts;
}

/// For readable failures.
std::map<std::string_view, double> named(const TimeAccounts& accounts) {
  std::map<std::string_view, double> found;
  for (std::size_t i = 0; i < kTimeUses.size(); ++i) {
    const Duration time = accounts[static_cast<TimeUse>(i)];
    if (time != Duration{}) found[kTimeUses[i]] = std::chrono::duration<double>(time).count();
  }
  return found;
}

void expect_accounts(const AttemptTime& time, End end, int at, std::map<TimeUse, int> expected) {
  EXPECT_EQ(named(time.accounts(end, kBegan + seconds(at))), named(of(std::move(expected))));
}

TEST(AttemptTime, BeforeAnyWorkerLivesIsStart) {
  const AttemptTime time(2, kBegan);
  expect_accounts(time, End::None, 3, {{TimeUse::Start, 6}});
}

TEST(AttemptTime, OfAProgramWithoutTheSdkIsUnknownOnceItWasStarted) {
  AttemptTime time(1, kBegan);
  time.started(Rank{0}, kBegan + seconds(2));
  time.sampled(Rank{0}, {}, kBegan + seconds(3));
  expect_accounts(time, End::None, 10, {{TimeUse::Start, 2}, {TimeUse::Unknown, 8}});
  time.ended(Rank{0}, {}, seconds(1), kBegan + seconds(11));
  expect_accounts(time, End::Good, 12,
                  {{TimeUse::Start, 2}, {TimeUse::Unknown, 8}, {TimeUse::Other, 2}});
}

TEST(AttemptTime, IsBookedByPhaseAndWhatCameBeforeTheSdkIsStart) {
  AttemptTime time(1, kBegan);
  time.started(Rank{0}, kBegan + seconds(1));
  time.sampled(Rank{0},
               progress(Phase::Checkpoint,
                        {{Phase::Start, 1},
                         {Phase::Restore, 2},
                         {Phase::Data, 3},
                         {Phase::Step, 40},
                         {Phase::Collective, 5},
                         {Phase::Wait, 6},
                         {Phase::Report, 7},
                         {Phase::Validate, 8},
                         {Phase::Own, 9}},
                        /*quiet=*/10),
               kBegan + seconds(95));
  expect_accounts(time, End::None, 97,  // it has been in the checkpoint for 2 s more
                  {{TimeUse::Start, 5},
                   {TimeUse::Restore, 2},
                   {TimeUse::Data, 3},
                   {TimeUse::Step, 40},
                   {TimeUse::Collective, 5},
                   {TimeUse::Checkpoint, 18},
                   {TimeUse::Report, 7},
                   {TimeUse::Validate, 8},
                   {TimeUse::Other, 9}});
}

TEST(AttemptTime, StepsSinceTheNewestCommittedCheckpointAreLostAtABadEnd) {
  AttemptTime time(1, kBegan);
  const auto at_end =
      progress(Phase::Step, {{Phase::Step, 50}}, 4, {{1, 20'000'000}, {2, 45'000'000}});
  time.committed(1);
  time.ended(Rank{0}, at_end, {}, kBegan + seconds(54));
  expect_accounts(time, End::Bad, 57,
                  {{TimeUse::Step, 20}, {TimeUse::Lost, 34}, {TimeUse::Down, 3}});
  expect_accounts(time, End::Good, 57, {{TimeUse::Step, 54}, {TimeUse::Other, 3}});
  time.committed(2);
  expect_accounts(time, End::Bad, 57,
                  {{TimeUse::Step, 45}, {TimeUse::Lost, 9}, {TimeUse::Down, 3}});
}

TEST(AttemptTime, WithoutACheckpointAllStepsAreLostAtABadEnd) {
  AttemptTime time(1, kBegan);
  time.ended(Rank{0}, progress(Phase::Step, {{Phase::Data, 1}, {Phase::Step, 9}}), {},
             kBegan + seconds(10));
  expect_accounts(time, End::Bad, 10, {{TimeUse::Data, 1}, {TimeUse::Lost, 9}});
}

TEST(AttemptTime, OfANodeThatIsNotHeardOfAnyMoreIsDown) {
  AttemptTime time(1, kBegan);
  time.sampled(Rank{0}, progress(Phase::Step, {{Phase::Step, 10}}), kBegan + seconds(10));
  expect_accounts(time, End::None, 30, {{TimeUse::Step, 10}, {TimeUse::Unknown, 20}});
  expect_accounts(time, End::Bad, 30, {{TimeUse::Lost, 10}, {TimeUse::Down, 20}});
}

TEST(AttemptTime, AWaitForARankThatFailedIsDown) {
  AttemptTime time(1, kBegan);
  time.ended(Rank{0}, progress(Phase::Collective, {{Phase::Step, 10}, {Phase::Collective, 1}}, 5),
             {}, kBegan + seconds(16));
  expect_accounts(time, End::Bad, 16,
                  {{TimeUse::Lost, 10}, {TimeUse::Collective, 1}, {TimeUse::Down, 5}});
}

TEST(AttemptTime, TheSilenceOfAGroupThatHangsIsHung) {
  AttemptTime time(2, kBegan);
  time.ended(Rank{0}, progress(Phase::Collective, {{Phase::Step, 10}}, 60), {},
             kBegan + seconds(70));
  time.ended(Rank{1}, progress(Phase::Step, {{Phase::Step, 10}}, 60), {}, kBegan + seconds(70));
  expect_accounts(time, End::Hung, 70, {{TimeUse::Lost, 20}, {TimeUse::Hung, 120}});
}

TEST(AttemptTime, AReportThatWaitsForTheEndOfAPauseIsPaused) {
  AttemptTime time(1, kBegan);
  time.sampled(Rank{0}, progress(Phase::Report, {{Phase::Step, 10}, {Phase::Report, 2}}, 1),
               kBegan + seconds(13));
  time.paused(Rank{0});
  expect_accounts(time, End::None, 14,
                  {{TimeUse::Step, 10}, {TimeUse::Report, 2}, {TimeUse::Paused, 2}});
  time.ended(Rank{0}, progress(Phase::Stop, {{Phase::Step, 10}, {Phase::Report, 7}}, 1), {},
             kBegan + seconds(18));
  expect_accounts(
      time, End::Good, 18,
      {{TimeUse::Step, 10}, {TimeUse::Report, 2}, {TimeUse::Paused, 5}, {TimeUse::Other, 1}});
}

TEST(AttemptTime, ASecondProgramOfAWorkerAddsToTheFirst) {
  AttemptTime time(1, kBegan);
  WorkerProgress first = progress(Phase::Step, {{Phase::Step, 10}});
  first.signs = 100;
  time.sampled(Rank{0}, first, kBegan + seconds(10));
  time.sampled(Rank{0}, progress(Phase::Step, {{Phase::Step, 3}}), kBegan + seconds(15));
  expect_accounts(time, End::None, 15, {{TimeUse::Step, 13}, {TimeUse::Start, 2}});
}

TEST(AttemptTime, AProcessThatStoodByBeforeItHadThePlaceDidNotStartForSoLong) {
  AttemptTime time(1, kBegan);
  time.sampled(Rank{0}, progress(Phase::Step, {{Phase::Start, 600}, {Phase::Step, 10}}),
               kBegan + seconds(11));
  expect_accounts(time, End::None, 11, {{TimeUse::Step, 10}, {TimeUse::Start, 1}});
}

TEST(AttemptTime, MissedSamplesCostNothing) {
  AttemptTime every(1, kBegan), last(1, kBegan);
  for (int t = 1; t <= 20; ++t) {
    const auto seen = progress(Phase::Step, {{Phase::Data, t / 2}, {Phase::Step, t - t / 2}});
    every.sampled(Rank{0}, seen, kBegan + seconds(t));
    if (t == 20) last.sampled(Rank{0}, seen, kBegan + seconds(t));
  }
  EXPECT_EQ(named(every.accounts(End::None, kBegan + seconds(20))),
            named(last.accounts(End::None, kBegan + seconds(20))));
}

TEST(AttemptTime, OfARankThatOnlyAnEarlierLauncherSawIsWhatThatOneWroteDown) {
  const NotedTime noted{of({{TimeUse::Start, 4}, {TimeUse::Step, 36}}), 2};
  AttemptTime time(2, kBegan, noted);
  time.sampled(Rank{0}, progress(Phase::Step, {{Phase::Step, 27}}), kBegan + seconds(30));
  expect_accounts(time, End::Bad, 30,
                  {{TimeUse::Start, 3 + 2}, {TimeUse::Lost, 27 + 18}, {TimeUse::Down, 10}});
}

TEST(AttemptTime, OfARankThatEndedUnderNobodysEyesIsNotStart) {
  AttemptTime time(1, kBegan, std::nullopt);
  time.ended(Rank{0}, progress(Phase::Step, {{Phase::Step, 5}}), {}, kBegan + seconds(30));
  expect_accounts(time, End::Bad, 30, {{TimeUse::Lost, 5}, {TimeUse::Down, 25}});
}

TEST(AttemptTime, WhateverAWorkerSaysItsPlaceHasNoMoreTimeThanPassed) {
  AttemptTime time(1, kBegan);
  WorkerProgress liar = progress(Phase::Step, {});
  for (PhaseIntervals& intervals : liar.intervals) intervals.total_us = std::int64_t{1} << 50;
  liar.quiet_us = std::int64_t{1} << 50;
  time.sampled(Rank{0}, liar, kBegan + seconds(3));
  EXPECT_EQ(time.accounts(End::Bad, kBegan + seconds(4)).total(), seconds(4));
}

// The property of the accounts: whatever happens to the workers, they add up to the whole.
TEST(AttemptTime, TheAccountsAddUpToTheWholeWhateverHappens) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int limit) {
      return static_cast<int>(random() % static_cast<unsigned>(limit));
    };
    const int world = 1 + below(5);
    AttemptTime time =
        below(4) == 0
            ? AttemptTime(world, kBegan, NotedTime{of({{TimeUse::Step, below(99)}}), 1 + below(3)})
            : AttemptTime(world, kBegan);
    std::vector<WorkerProgress> workers(static_cast<std::size_t>(world));
    for (int t = 0; t < 40; ++t) {
      const TimePoint now = kBegan + milliseconds(500 * t);
      const Rank rank{below(world)};
      WorkerProgress& worker = workers[static_cast<std::size_t>(rank.value)];
      switch (below(8)) {
        case 0:
          time.started(rank, now);
          break;
        case 1:
          time.paused(rank);
          break;
        case 2:
          time.committed(static_cast<std::uint64_t>(below(4)));
          break;
        case 3:
          if (below(4) == 0) time.ended(rank, worker, milliseconds(below(2000)), now);
          break;
        case 4:
          worker = {};  // killed: another program begins
          break;
        default: {
          if (worker.intervals.empty()) worker = progress(Phase::Start, {});
          const auto phase = static_cast<std::size_t>(1 + below(12));
          worker.intervals[phase].total_us += below(1'000'000);
          worker.phase = static_cast<Phase>(1 + below(12));
          worker.quiet_us = below(3'000'000);
          ++worker.signs;
          worker.handed_over = {{static_cast<std::uint64_t>(below(4)), below(5'000'000)}};
          time.sampled(rank, worker, now);
        }
      }
      for (const End end : {End::None, End::Good, End::Bad, End::Hung}) {
        const TimeAccounts accounts = time.accounts(end, now);
        ASSERT_EQ(accounts.total(), (now - kBegan) * world) << "seed " << seed;
        for (std::size_t use = 0; use < kTimeUses.size(); ++use)
          ASSERT_GE(accounts[static_cast<TimeUse>(use)], Duration{}) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace train
