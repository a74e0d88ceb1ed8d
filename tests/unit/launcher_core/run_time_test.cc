// A run's controller books the time of its workers, over all attempts and between them.
#include <gtest/gtest.h>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

WorkerProgress stepped(int total, int kept = 0) {
  WorkerProgress progress{.phase = Phase::Step, .signs = 1};
  progress.intervals.resize(kPhases.size());
  progress.intervals[static_cast<std::size_t>(Phase::Step)] = {1, std::int64_t{1'000'000} * total,
                                                               0};
  if (kept > 0) progress.handed_over = {{1, std::int64_t{1'000'000} * kept}};
  return progress;
}

TimeAccounts of(std::map<TimeUse, int> times) {
  TimeAccounts accounts;
  for (const auto& [use, time] : times) accounts[use] = seconds(time);
  return accounts;
}

struct Timed : Driven {
  explicit Timed(RunStart start = {.expected_nodes = 2})
      : Driven(two_workers(1), std::move(start)) {}
  void at(int second, const RunEvent& event) {
    for (RunAction& action : handle(event, seconds(second))) actions.push_back(std::move(action));
  }
  /// Let all nodes prepare and start the attempt, which began one second before.
  void start(Attempt attempt, int second) {
    at(second, AttemptPrepared{attempt, kNodeA, 41000});
    at(second, AttemptPrepared{attempt, kNodeB, 0});
    at(second, AttemptStarted{attempt, kNodeA, {{Rank{0}, 100}}});
    at(second, AttemptStarted{attempt, kNodeB, {{Rank{1}, 100}}});
  }
  /// End both ranks; rank 1 first, and in this way.
  void end(Attempt attempt, int second, const WorkerEnd& how, const WorkerProgress& progress) {
    at(second, RankExited{attempt, Rank{1}, how, progress, {}});
    at(second + 1, RankExited{attempt, Rank{0}, how.clean() ? how : killed(SIGTERM, true), progress,
                              seconds(1)});
    at(second + 1, NodeGroupGone{attempt, kNodeA});
    at(second + 1, NodeGroupGone{attempt, kNodeB});
  }
  TimeAccounts worker_time(int second) const { return run.worker_time(kStart + seconds(second)); }
  Actions actions;
};

TEST(RunTime, HasWhatAFailureCost) {
  Timed run;
  run.at(0, node_up(kNodeA));
  run.at(10, node_up(kNodeB));  // the places are granted; nobody's time has passed before
  run.start(kFirst, 11);
  EXPECT_EQ(run.worker_time(12), of({{TimeUse::Start, 2}, {TimeUse::Unknown, 2}}));

  run.at(20, CommitFinished{kFirst, 1, checkpoint(1), ""});
  run.end(kFirst, 31, killed(SIGSEGV), stepped(20, /*kept=*/15));
  const auto ended = only<AttemptEnded>(run.actions);
  ASSERT_EQ(ended.size(), 1u);
  const TimeAccounts first =
      of({{TimeUse::Start, 2}, {TimeUse::Step, 30}, {TimeUse::Lost, 10}, {TimeUse::Down, 2}});
  EXPECT_EQ(ended[0].time, first);

  // The next attempt begins at once, and its places count from then on.
  EXPECT_EQ(run.run.attempt(), Attempt{kFirst.value + 1});
  EXPECT_EQ(run.run.attempt_time(kStart + seconds(33)), of({{TimeUse::Start, 2}}));
  TimeAccounts with_next = first;
  with_next[TimeUse::Start] += seconds(6);  // two places for 3 s
  EXPECT_EQ(run.worker_time(35), with_next);
}

TEST(RunTime, OfARunThatEndsWellHasLostNothing) {
  Timed run;
  run.at(0, node_up(kNodeA));
  run.at(0, node_up(kNodeB));
  run.start(kFirst, 1);
  run.end(kFirst, 11, exited(0), stepped(10));
  EXPECT_EQ(run.run.state(), RunState::Finished);
  const TimeAccounts expected = of({{TimeUse::Start, 2}, {TimeUse::Step, 20}, {TimeUse::Other, 2}});
  EXPECT_EQ(run.worker_time(12), expected);
  EXPECT_EQ(run.worker_time(1000), expected);  // it is over
}

TEST(RunTime, GoesOnFromWhatEarlierLaunchersBooked) {
  Timed run({.expected_nodes = 2,
             .time = of({{TimeUse::Step, 100}}),
             .down_for = seconds(5),
             .down_places = 4});
  EXPECT_EQ(run.worker_time(2), of({{TimeUse::Step, 100}, {TimeUse::Down, 28}}));
  run.at(3, node_up(kNodeA));
  run.at(3, node_up(kNodeB));
  EXPECT_EQ(run.worker_time(4),
            of({{TimeUse::Step, 100}, {TimeUse::Down, 32}, {TimeUse::Start, 2}}));
}

TEST(RunTime, OfALivingAttemptBeginsWhereItBegan) {
  RunStart start{.first_attempt = kSecond, .expected_nodes = 2};
  start.living = LivingAttempt{.id = kFirst,
                               .generation = Generation{1},
                               .placement = both(),
                               .node_names = {"node-a", "node-b"},
                               .restored = {},
                               .resolved_path = "",
                               .age = seconds(30)};
  Timed run(std::move(start));
  run.at(0, RanksSampled{kFirst,
                         {{.rank = Rank{0}, .progress = stepped(29)},
                          {.rank = Rank{1}, .progress = stepped(29)}}});
  EXPECT_EQ(run.worker_time(0), of({{TimeUse::Start, 2}, {TimeUse::Step, 58}}));
}

}  // namespace
}  // namespace train
