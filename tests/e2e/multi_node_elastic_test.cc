// Groups shrink and grow while they train on three nodes in network namespaces. Tests what a lost,
// a late and a drained node cost, and the death of a launcher in the middle.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr int kEpochs = 12;
// These are a third of the defaults, so that verdicts come sooner.
constexpr const char* kQuick = "node_suspect_after: 1s, node_dead_after: 3s, stop_grace: 10s";
constexpr Seconds kQuickDeadAfter{3};
constexpr const char* kElastic = "{min: 1, max: 3}";
// Hold each rank until it knows that it must stop; otherwise it might reach its end before.
constexpr const char* kHeldUntilStopped =
    "checkpoint_every: 0, on_stop: true, hold_at: [4], hold_until_stop: true";

class MultiNodeElastic : public ThreeNodes {
 protected:
  /// Train for some epochs with a worker on each node. Workers wait where `loop` says until
  /// go_on().
  Process& train(const std::string& num_workers, const std::string& loop,
                 const std::string& failure_config = kQuick, int epochs = kEpochs) const {
    return nodes->train_run(
        cluster->job(
            "job",
            fmt::format("command: [{}]\n"
                        "scaling_config: {{num_workers: {}, placement_strategy: STRICT_SPREAD}}\n"
                        "train_loop_config: {{mode: epochs, epochs: {}, hold_file: '{}', {}}}\n",
                        program("sdk_worker"), num_workers, epochs, cluster->path("go"), loop),
            fmt::format("  failure_config: {{{}}}\n", failure_config)),
        3);
  }
  void go_on(int attempt, int epoch) const {
    cluster->write(fmt::format("go-{}-{}", attempt, epoch), "");
  }
  /// Wait until all `workers` of the attempt have logged the epochs below `epoch`.
  bool at(int attempt, int workers, std::int64_t epoch) const {
    return wait_until([&] {
      std::map<int, std::int64_t> done;
      for (const Reported& report : reports(*cluster, "job")) {
        if (report.attempt == attempt) done[report.rank] = report.epoch;
      }
      return static_cast<int>(done.size()) == workers &&
             std::all_of(done.begin(), done.end(),
                         [&](const auto& rank) { return rank.second >= epoch - 1; });
    });
  }
  bool committed(std::size_t count) const {
    return wait_until([&] { return cluster->checkpoints("job").size() >= count; });
  }
  static bool says(const Process& run, const std::string& text) {
    return wait_until([&] { return contains(run.out(), text); });
  }
  std::set<pid_t> workers() const {
    std::set<pid_t> pids;
    for (const Seen& seen : cluster->workers()) pids.insert(seen.pid);
    return pids;
  }
  std::vector<int> world_sizes() const {
    std::vector<int> sizes;
    for (const auto& event : cluster->journal("job")) {
      if (text_of(event, "event") == "attempt_started")
        sizes.push_back(static_cast<int>(event.at("world_size").as_int64()));
    }
    return sizes;
  }
  /// Check that the run succeeded with groups of these sizes. All ranks of a group did the same
  /// epochs, and all groups together did each epoch once.
  void expect_each_epoch_once(Process& run, const std::vector<int>& sizes,
                              int epochs = kEpochs) const {
    EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
    EXPECT_EQ(world_sizes(), sizes);
    const std::vector<Reported> all = reports(*cluster, "job");
    expect_exactly_once(all);
    std::int64_t next = 0;
    for (std::size_t attempt = 0; attempt < sizes.size(); ++attempt) {
      std::map<int, std::pair<std::int64_t, std::int64_t>> done;  // rank → first and last epoch
      for (const Reported& report : all) {
        if (report.attempt != static_cast<int>(attempt)) continue;
        done.try_emplace(report.rank, report.epoch, report.epoch).first->second.second =
            report.epoch;
      }
      EXPECT_EQ(static_cast<int>(done.size()), sizes[attempt]) << "attempt " << attempt;
      if (done.empty()) continue;
      for (const auto& [rank, range] : done) {
        EXPECT_EQ(range, done[0]) << "attempt " << attempt << ", rank " << rank;
        EXPECT_EQ(range.first, next) << "attempt " << attempt << ", rank " << rank;
      }
      next = done[0].second + 1;
    }
    EXPECT_EQ(next, epochs);
    expect_each_report_once();
    EXPECT_TRUE(wait_until([&] { return cluster->workers().empty(); }));
  }
  void expect_each_report_once() const {
    std::map<std::string, int> times;
    for (const auto& line : cluster->metrics("job"))
      ++times[text_of(line, "attempt") + "/" + text_of(line, "rank") + "/" +
              text_of(line, "report_seq")];
    for (const auto& [report, count] : times) EXPECT_EQ(count, 1) << report;
  }
};

constexpr const char* kMeeting = "the workers will checkpoint together at their next checkpoint";

TEST_F(MultiNodeElastic, ALostNodeShrinksTheGroupAndItsReturnGrowsIt) {
  nodes->start_all();
  Process& run = train(kElastic, "hold_at: [4, 8], hold_attempts: 2");
  go_on(1, 4);
  ASSERT_TRUE(at(0, 3, 4) && committed(4)) << run.out() << run.err();

  nodes->power_off(2);
  ASSERT_TRUE(at(1, 2, 8)) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "node n2 is lost: no heartbeat for ")) << run.out();
  expect_verdict_in_time(run.out(), kQuickDeadAfter);
  nodes->power_on(2);
  ASSERT_TRUE(says(run, "there is room for 3 workers instead of 2")) << run.out() << run.err();
  go_on(1, 8);

  expect_each_epoch_once(run, {3, 2, 3});
}

TEST_F(MultiNodeElastic, AFixedGroupWaitsForItsNodeAndSaysSo) {
  nodes->start_all();
  Process& run =
      train("3", "hold_at: [4], hold_attempts: 1", fmt::format("{}, max_failures: 1", kQuick));
  ASSERT_TRUE(at(0, 3, 4) && committed(4)) << run.out() << run.err();

  network->cut_off(2);
  nodes->power_off(2);
  EXPECT_TRUE(says(run, "waiting: 3 workers with CPU 1 each are needed (STRICT_SPREAD), 2 fit: "))
      << run.out() << run.err();
  nodes->power_on(2);

  expect_each_epoch_once(run, {3, 3});
}

TEST_F(MultiNodeElastic, ALateNodeIsTakenInAtACheckpointAndNothingIsDoneTwice) {
  nodes->start(0);
  nodes->start(1);
  constexpr int kAll = 30, kLater = 22;
  // Rank 1 is three epochs ahead when the ranks are asked to meet. They go on before they hear of
  // it, and wait again before their end, because on a busy machine the news may be that late.
  Process& run = train(kElastic,
                       fmt::format("checkpoint_every: 3, hold_at_0: [4, {0}], hold_at_1: [7, {0}], "
                                   "hold_attempts: 1",
                                   kLater),
                       kQuick, kAll);
  ASSERT_TRUE(wait_until([&] { return reports(*cluster, "job").size() == 4u + 7u; }))
      << run.out() << run.err();

  nodes->start(2);
  ASSERT_TRUE(says(run, kMeeting)) << run.out() << run.err();
  go_on(0, 4);
  go_on(0, 7);
  ASSERT_TRUE(wait_until([&] {
    return world_sizes().size() == 2u || reports(*cluster, "job").size() == std::size_t{2} * kLater;
  })) << run.out()
      << run.err();
  go_on(0, kLater);

  expect_each_epoch_once(run, {2, 3}, kAll);
  EXPECT_TRUE(contains(run.out(), "restored epoch ")) << run.out();
}

TEST_F(MultiNodeElastic, ADrainedNodeThatIsStartedAgainIsUsedAgain) {
  nodes->start_all();
  Process& run = train(kElastic,
                       "checkpoint_every: 0, on_stop: true, hold_at: [4, 8, 10], hold_attempts: 2, "
                       "hold_until_stop: true");
  ASSERT_TRUE(at(0, 3, 4)) << run.out() << run.err();
  nodes->daemon(1).signal(SIGTERM);
  ASSERT_EQ(nodes->daemon(1).wait(), 0) << nodes->daemon(1).err();
  ASSERT_TRUE(at(1, 2, 8)) << run.out() << run.err();

  nodes->start(1);
  ASSERT_TRUE(says(run, "there is room for 3 workers instead of 2")) << run.out() << run.err();
  go_on(1, 8);
  // The order to meet may still be on its way to ranks that go on. They wait for it at epoch 10.
  EXPECT_TRUE(wait_until([&] {
    const auto all = reports(*cluster, "job");
    return world_sizes().size() == 3 || std::count_if(all.begin(), all.end(), [](const auto& one) {
                                          return one.attempt == 1 && one.epoch == 9;
                                        }) == 2;
  })) << run.out();
  go_on(1, 10);

  expect_each_epoch_once(run, {3, 2, 3});
}

class MultiNodeWarned : public MultiNodeElastic, public ::testing::WithParamInterface<int> {};

TEST_P(MultiNodeWarned, ANodeHandsItsWorkOn) {
  nodes->start_all();
  Process& run = train(kElastic, kHeldUntilStopped);
  ASSERT_TRUE(at(0, 3, 4)) << run.out() << run.err();

  nodes->daemon(1).signal(GetParam());

  EXPECT_EQ(nodes->daemon(1).wait(), 0) << nodes->daemon(1).err();
  expect_each_epoch_once(run, {3, 2});
}

INSTANTIATE_TEST_SUITE_P(Signals, MultiNodeWarned, ::testing::Values(SIGTERM, SIGUSR1));

TEST_F(MultiNodeElastic, ANodeIsDrainedWhileTheGroupIsAboutToGrow) {
  nodes->start(0);
  nodes->start(1);
  Process& run = train(kElastic, kHeldUntilStopped);
  ASSERT_TRUE(at(0, 2, 4)) << run.out() << run.err();
  nodes->start(2);
  ASSERT_TRUE(says(run, kMeeting)) << run.out() << run.err();

  Process& drain = nodes->drain(1);
  EXPECT_EQ(drain.wait(), 0) << drain.err();
  EXPECT_EQ(nodes->daemon(1).wait(), 0) << nodes->daemon(1).err();
  expect_each_epoch_once(run, {2, 2});
}

TEST_F(MultiNodeElastic, AFixedGroupMovesFromADrainedNodeToASpareOne) {
  nodes->start_all();
  Process& run = train("2", kHeldUntilStopped);
  ASSERT_TRUE(at(0, 2, 4)) << run.out() << run.err();

  nodes->daemon(0).signal(SIGTERM);

  EXPECT_EQ(nodes->daemon(0).wait(), 0) << nodes->daemon(0).err();
  expect_each_epoch_once(run, {2, 2});
  EXPECT_TRUE(contains(run.out(), "node n0 is being drained: SIGTERM")) << run.out();
}

TEST_F(MultiNodeElastic, ALauncherThatDiesDuringAPartitionCostsNothing) {
  nodes->start_all();
  Process& first = train("3", "checkpoint_every: 0, hold_at: [4, 8]");
  ASSERT_TRUE(at(0, 3, 4)) << first.out() << first.err();
  const std::set<pid_t> before = workers();

  network->cut(1);
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  go_on(0, 4);
  Process& second = nodes->resume("job");
  ASSERT_TRUE(says(second, fmt::format("{} (", nodes->endpoint(1)))) << second.out();
  network->mend(1);
  ASSERT_TRUE(at(0, 3, 8)) << second.out() << second.err();
  EXPECT_EQ(workers(), before);
  go_on(0, 8);

  expect_each_epoch_once(second, {3});
  EXPECT_EQ(before.size(), 3u);
}

TEST_F(MultiNodeElastic, ALauncherAndANodeThatDieTogetherLeaveASmallerGroup) {
  nodes->start_all();
  Process& first = train(kElastic, "hold_at: [4]");
  ASSERT_TRUE(at(0, 3, 4) && committed(4)) << first.out() << first.err();

  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  nodes->power_off(1);
  Process& second = nodes->resume("job");

  expect_each_epoch_once(second, {3, 2});
}

TEST_F(MultiNodeElastic, ASuspectNodeThatAnswersAgainHasLostNothing) {
  nodes->start_all();
  Process& run = train("3", "checkpoint_every: 0, hold_at: [4]", "max_failures: 0");
  ASSERT_TRUE(at(0, 3, 4)) << run.out() << run.err();

  network->deafen(1);  // packets are lost both ways, and no interface reports it
  network->silence(1);
  go_on(0, 4);
  ASSERT_TRUE(wait_until([&] { return network->dialled(1); })) << "it is suspect by default limits";
  network->undeafen(1);
  network->unsilence(1);

  expect_each_epoch_once(run, {3});
}

TEST_F(MultiNodeElastic, EveryTenthPacketLostIsNoLostNode) {
  nodes->start_all();
  for (const int node : {0, 1, 2}) network->lose(node, 10);
  // A rank reports again once the launcher has its last report: a few hundred packets each way.
  Process& run = train("3", "checkpoint_every: 0, ahead: 1", "max_failures: 0", 60);

  expect_each_epoch_once(run, {3}, 60);
  for (const int node : {0, 1, 2}) EXPECT_GT(network->dropped(node), 0u);
}

TEST_F(MultiNodeElastic, ANodeThatIsNotHeardIsALostOne) {
  nodes->start_all();
  Process& run = train(kElastic, "hold_at: [4]", fmt::format("{}, orphan_timeout: 3s", kQuick));
  ASSERT_TRUE(at(0, 3, 4) && committed(4)) << run.out() << run.err();

  network->silence(1);  // orders still reach it

  expect_each_epoch_once(run, {3, 2});
}

TEST_F(MultiNodeElastic, ANodeWhereWorkersAlwaysDieIsQuarantined) {
  nodes->start_all();
  Process& run = train(
      "2",
      fmt::format("checkpoint_every: 0, die_epoch: 3, die_on_address: {}", network->address(1)),
      fmt::format("{}, max_failures: 3, backoff: {{initial: 0s}}", kQuick));

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_TRUE(contains(run.out(), "node n1 failed 3 times in a row")) << run.out();
  expect_each_report_once();
}

}  // namespace
}  // namespace train::e2e
