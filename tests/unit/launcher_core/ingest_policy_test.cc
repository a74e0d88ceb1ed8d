#include "launcher/core/ingest_policy.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr TimePoint kStart{seconds(1000)};

IngestSpec between(int min, int max, double cpu = 1) {
  IngestSpec spec;
  spec.workers = {min, max};
  spec.resources_per_worker.cpu = cpu;
  return spec;
}

/// Samples of one rank and as many ingest workers as there are, once a second.
struct Sampled {
  IngestPolicy policy;
  TimePoint now = kStart;
  Duration waited{}, used{}, node_clock = seconds(77);

  /// Pass a second in which a rank waits and each ingest worker works for these shares of it.
  int second(double waits, double works) {
    now += seconds(1);
    node_clock += seconds(1);
    waited += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(waits));
    used += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(works));
    policy.rank_waited(Rank{0}, waited, node_clock, now);
    policy.worker_used("ingest-train-0001", used, now);
    return policy.advance(now);
  }
  /// Return after how many seconds the number changes, and to what; none within `most`.
  std::optional<std::pair<int, int>> changes(double waits, double works, int before, int most) {
    for (int passed = 1; passed <= most; ++passed) {
      const int count = second(waits, works);
      if (count != before) return std::pair{passed, count};
    }
    return std::nullopt;
  }
};

TEST(IngestPolicy, GrowsByOneWhenRanksWaitAndIngestIsBusyForTenSeconds) {
  Sampled sampled{IngestPolicy(between(1, 4), 4, 1)};

  // The first sample only begins a measurement; the second begins the ten seconds.
  EXPECT_EQ(sampled.changes(0.06, 0.81, 1, 30), (std::pair{12, 2}));
  EXPECT_EQ(sampled.changes(0.06, 0.81, 2, 30), (std::pair{11, 3}));
}

TEST(IngestPolicy, DoesNotGrowWhenOnlyOneOfTheTwoIsSo) {
  Sampled sampled{IngestPolicy(between(1, 4), 4, 1)};

  EXPECT_EQ(sampled.changes(0.05, 1.0, 1, 30), std::nullopt);
  EXPECT_EQ(sampled.changes(0.9, 0.79, 1, 30), std::nullopt);
}

TEST(IngestPolicy, OneGoodSecondBeginsTheTenAnew) {
  Sampled sampled{IngestPolicy(between(1, 4), 4, 1)};
  EXPECT_EQ(sampled.changes(0.5, 1.0, 1, 11), std::nullopt);

  EXPECT_EQ(sampled.second(0.0, 1.0), 1);

  EXPECT_EQ(sampled.changes(0.5, 1.0, 1, 10), std::nullopt);
  EXPECT_EQ(sampled.second(0.5, 1.0), 2);
}

TEST(IngestPolicy, ShrinksByOneWhenBothAreIdleForAMinute) {
  Sampled sampled{IngestPolicy(between(1, 4), 4, 3)};

  EXPECT_EQ(sampled.changes(0.009, 0.49, 3, 90), (std::pair{62, 2}));
}

TEST(IngestPolicy, DoesNotShrinkWhileRanksWaitOrIngestWorks) {
  Sampled sampled{IngestPolicy(between(1, 4), 4, 3)};

  EXPECT_EQ(sampled.changes(0.01, 0.1, 3, 90), std::nullopt);
  EXPECT_EQ(sampled.changes(0.0, 0.5, 3, 90), std::nullopt);
}

TEST(IngestPolicy, StaysWithinWhatTheSpecAndTheNodesAllow) {
  Sampled full{IngestPolicy(between(1, 8), 3, 3)};  // there is room for three
  Sampled least{IngestPolicy(between(2, 8), 8, 2)};

  EXPECT_EQ(full.changes(1.0, 1.0, 3, 60), std::nullopt);
  EXPECT_EQ(least.changes(0.0, 0.0, 2, 200), std::nullopt);
}

TEST(IngestPolicy, CountsShareOfTheClaim) {
  Sampled sampled{IngestPolicy(between(1, 4, /*cpu=*/2), 4, 1)};

  EXPECT_EQ(sampled.changes(0.5, 1.5, 1, 30), std::nullopt);  // of two CPUs
  EXPECT_NE(sampled.changes(0.5, 1.7, 1, 30), std::nullopt);
}

TEST(IngestPolicy, DecidesNothingWithoutSamplesOfBoth) {
  IngestPolicy policy(between(1, 4), 4, 1);
  TimePoint now = kStart;
  for (int second = 0; second < 60; ++second) {
    now += seconds(1);
    policy.rank_waited(Rank{0}, seconds(second), seconds(second + 1), now);
    EXPECT_EQ(policy.advance(now), 1);
  }
  EXPECT_EQ(policy.busy(now), std::nullopt);
}

TEST(IngestPolicy, ForgetsOldSamples) {
  Sampled sampled{IngestPolicy(between(1, 4), 4, 1)};
  sampled.second(0.5, 1.0);
  sampled.second(0.5, 1.0);
  EXPECT_NE(sampled.policy.waiting(sampled.now), std::nullopt);

  EXPECT_EQ(sampled.policy.waiting(sampled.now + seconds(31)), std::nullopt);
}

TEST(IngestPolicy, IsNotMovedByAbsurdCounters) {
  IngestPolicy policy(between(1, 4), 4, 1);
  TimePoint now = kStart;
  for (int i = 0; i < 100; ++i) {
    now += seconds(1);
    // Backwards, and standing still.
    policy.rank_waited(Rank{0}, seconds(1'000'000 - i), seconds(i / 2), now);
    policy.worker_used("x", seconds(1'000'000 - i), now);
    EXPECT_EQ(policy.advance(now), 1);
  }
}

}  // namespace
}  // namespace train
