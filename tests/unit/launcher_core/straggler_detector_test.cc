// Who is slower than the others, and who only seems to be.
#include "launcher/core/straggler_detector.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using Finding = StragglerDetector::Finding;

/// Ranks on two nodes, the first half on node-a. Samples come each second; a step takes 50 ms.
class Group {
 public:
  explicit Group(int ranks) : ranks_(placement(ranks)) {
    for (const NodeId node : {kNodeA, kNodeB}) nodes_.up(node_up(node));
    workers_.resize(static_cast<std::size_t>(ranks));
    for (Worker& worker : workers_) worker.progress.intervals.resize(kPhases.size());
  }

  struct Own {
    double step_ms = 40, data_ms = 0;
  };
  /// Let `seconds_long` seconds pass, in which each step of a rank takes what `own` says. If the
  /// ranks synchronise, all wait for the slowest one in a collective.
  std::vector<Finding> pass(int seconds_long, const std::function<Own(int rank)>& own,
                            bool synchronise = true) {
    std::vector<Finding> found;
    for (int second = 0; second < seconds_long; ++second) {
      now_ += seconds(1);
      for (Worker& worker : workers_) worker.left_ms += 1000;
      while (step(own, synchronise)) {
      }
      for (std::size_t i = 0; i < workers_.size(); ++i) {
        if (sdk_) workers_[i].progress.phase = Phase::Step;
        detector_.sampled({.rank = Rank{static_cast<int>(i)}, .progress = workers_[i].progress},
                          now_);
      }
      for (Finding& one : detector_.judge(ranks_, nodes_, now_)) found.push_back(std::move(one));
    }
    return found;
  }

  StragglerDetector detector_;
  RankTable ranks_;
  NodePool nodes_{2};
  bool sdk_ = true;

 private:
  struct Worker {
    WorkerProgress progress;
    double left_ms = 0;
  };

  static Placement placement(int ranks) {
    Placement placement{.world_size = ranks, .nodes = {}, .reason = "", .never = false};
    const int half = ranks / 2;
    placement.nodes = {{kNodeA, NodeRank{0}, Rank{0}, half},
                       {kNodeB, NodeRank{1}, Rank{half}, ranks - half}};
    return placement;
  }

  static void add(WorkerProgress& progress, Phase phase, double ms) {
    progress.intervals[static_cast<std::size_t>(phase)].total_us +=
        static_cast<std::int64_t>(ms * 1000);
  }

  /// Make one step of each rank that has time for one. Return whether any rank made one.
  bool step(const std::function<Own(int)>& own, bool synchronise) {
    std::vector<Own> times;
    double slowest = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      times.push_back(own(static_cast<int>(i)));
      slowest = std::max(slowest, times[i].step_ms + times[i].data_ms);
    }
    bool any = false;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const double mine = times[i].step_ms + times[i].data_ms;
      const double whole = synchronise ? slowest + 10 : mine;
      if (workers_[i].left_ms < whole) continue;
      any = true;
      workers_[i].left_ms -= whole;
      WorkerProgress& progress = workers_[i].progress;
      add(progress, Phase::Step, times[i].step_ms);
      add(progress, Phase::Data, times[i].data_ms);
      add(progress, Phase::Collective, whole - mine);
      ++progress.steps;
    }
    return any;
  }

  std::vector<Worker> workers_;
  TimePoint now_ = kStart;
};

std::function<Group::Own(int)> slow(int rank, double factor) {
  return [=](int other) { return Group::Own{other == rank ? 40 * factor : 40}; };
}

TEST(StragglerDetector, NamesARankThatIsSlowForLong) {
  Group group(4);
  const auto found = group.pass(40, slow(3, 1.5));
  ASSERT_EQ(found.size(), 1u);  // once, and not in each window
  EXPECT_TRUE(found[0].slow);
  EXPECT_EQ(found[0].ranks, (std::vector<Rank>{Rank{3}}));
  EXPECT_EQ(found[0].node, kNodeB);
  EXPECT_FALSE(found[0].whole_node);
  EXPECT_EQ(found[0].phase, Phase::Step);
  EXPECT_NEAR(found[0].behind, 0.5, 0.01);
  EXPECT_LE(found[0].odds, kOddsMax);
  EXPECT_EQ(found[0].text, "rank 3 on node-b is slow: 50 % behind the median in step for " +
                               format_duration(found[0].lasted) +
                               " (odds that this is chance: " + odds_text(found[0].odds) + ")");
}

TEST(StragglerDetector, NamesTheSlowOneOfTwo) {
  Group group(2);
  const auto found = group.pass(60, slow(0, 1.3));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ranks, (std::vector<Rank>{Rank{0}}));
}

TEST(StragglerDetector, SaysThatARankIsSlowInLoadingData) {
  Group group(4);
  const auto found = group.pass(40, [](int rank) {
    return Group::Own{40, rank == 1 ? 30.0 : 5.0};
  });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ranks, (std::vector<Rank>{Rank{1}}));
  EXPECT_EQ(found[0].phase, Phase::Data);
}

TEST(StragglerDetector, ComparesStepsWhereRanksDoNotSynchronise) {
  Group group(4);
  const auto found = group.pass(40, slow(2, 2), /*synchronise=*/false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ranks, (std::vector<Rank>{Rank{2}}));
  EXPECT_NEAR(found[0].behind, 1.0, 0.02);
}

TEST(StragglerDetector, NamesANodeWhoseRanksAreAllSlow) {
  Group group(8);
  const auto found = group.pass(120, [](int rank) { return Group::Own{rank >= 4 ? 60.0 : 40.0}; });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].whole_node);
  EXPECT_EQ(found[0].ranks, (std::vector<Rank>{Rank{4}, Rank{5}, Rank{6}, Rank{7}}));
  EXPECT_TRUE(found[0].text.starts_with(
      "ranks 4, 5, 6, 7 on node-b, the whole node, are slow: 50 % behind the median in step for "))
      << found[0].text;
}

TEST(StragglerDetector, DoesNotNameARankThatIsSlowOnce) {
  Group group(4);
  auto found = group.pass(20, slow(-1, 1));
  for (auto& one : group.pass(6, slow(3, 3))) found.push_back(one);
  for (auto& one : group.pass(60, slow(-1, 1))) found.push_back(one);
  EXPECT_TRUE(found.empty());
}

TEST(StragglerDetector, DoesNotNameARankThatIsHardlySlower) {
  Group group(4);
  EXPECT_TRUE(group.pass(100, slow(3, 1.04)).empty());
}

TEST(StragglerDetector, NamesNobodyInNoise) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    for (const int ranks : {2, 3, 8}) {
      std::mt19937 random(seed);
      std::normal_distribution<double> noise(0, 8);
      Group group(ranks);
      std::vector<double> of_second(static_cast<std::size_t>(ranks));
      std::vector<Finding> found;
      for (int second = 0; second < 300; ++second) {
        // A whole window of a rank is slower or faster by some 20 % of a step.
        for (double& time : of_second) time = std::max(10.0, 40 + noise(random));
        for (auto& one : group.pass(1, [&](int rank) {
               return Group::Own{of_second[static_cast<std::size_t>(rank)]};
             }))
          found.push_back(one);
      }
      EXPECT_TRUE(found.empty()) << "seed " << seed << ": " << found.front().text;
    }
  }
}

TEST(StragglerDetector, ClearsARankThatIsAsFastAsTheOthersAgainAndNamesItAnew) {
  Group group(4);
  ASSERT_EQ(group.pass(40, slow(3, 1.5)).size(), 1u);
  const auto cleared = group.pass(40, slow(-1, 1));
  ASSERT_EQ(cleared.size(), 1u);
  EXPECT_FALSE(cleared[0].slow);
  EXPECT_TRUE(cleared[0].text.starts_with("rank 3 on node-b is no longer slow, after "));
  const auto again = group.pass(40, slow(3, 1.5));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].slow);
}

TEST(StragglerDetector, DoesNotCompareProgramsWithoutTheSdk) {
  Group group(4);
  group.sdk_ = false;
  EXPECT_TRUE(group.pass(60, slow(3, 3)).empty());
}

TEST(StragglerDetector, LeavesOutRanksThatHaveEnded) {
  Group group(4);
  group.ranks_.ended(Rank{3}, exited(0));
  EXPECT_TRUE(group.pass(60, slow(3, 2)).empty());
}

TEST(Odds, AreTheUpperTailOfTheBinomialDistribution) {
  EXPECT_DOUBLE_EQ(binomial_tail(10, 0, 0.5), 1);
  EXPECT_NEAR(binomial_tail(10, 10, 0.5), 1.0 / 1024, 1e-12);
  EXPECT_NEAR(binomial_tail(10, 8, 0.5), 56.0 / 1024, 1e-12);
  EXPECT_NEAR(binomial_tail(4, 2, 0.25), 67.0 / 256, 1e-12);
}

TEST(Odds, AreSaidInOneDigit) {
  EXPECT_EQ(odds_text(1), "1 in 1");
  EXPECT_EQ(odds_text(1.0 / 38'147), "1 in 30,000");
  EXPECT_EQ(odds_text(1.0 / 999), "1 in 900");
  EXPECT_EQ(odds_text(1e-9), "less than 1 in 1,000,000");
}

}  // namespace
}  // namespace train
