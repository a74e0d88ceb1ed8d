// A run with LibTorch's data loader breaks in the middle of an epoch. The steps up to the
// checkpoint and the later steps of the next attempt together see each row once per epoch.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr int kRows = 24, kEpochs = 2, kCheckpointEvery = 3;

struct Sample {
  int attempt = 0, epoch = 0, step = 0, row = 0;
};

class Sampler : public ::testing::Test {
 protected:
  /// Return a job in which each of `workers` ranks takes two rows per step. Rank 1 is killed in the
  /// first epoch's fifth step, once the checkpoint of the third is committed.
  std::string job(const std::string& name, int workers, int max_failures,
                  const std::string& more = "") const {
    return cluster.job(
        name,
        fmt::format(
            "command: [{}]\nscaling_config: {{num_workers: {}, resources_per_worker: {{CPU: "
            "0}}}}\nenv: {{CUDA_VISIBLE_DEVICES: '', OMP_NUM_THREADS: '1'}}\n"
            "train_loop_config: {{rows: {}, epochs: {}, checkpoint_every: {}, die_rank: {}, "
            "die_step: 5, seen: '{}'}}\n{}",
            program("sampling_worker"), workers, kRows, kEpochs, kCheckpointEvery,
            more.empty() ? 1 : -1, cluster.path(name), more),
        fmt::format("  failure_config: {{max_failures: {}}}\n", max_failures));
  }
  std::vector<Sample> seen(const std::string& name, int rank) const {
    std::istringstream lines(cluster.read(cluster.path(fmt::format("{}-{}", name, rank))));
    std::vector<Sample> all;
    for (Sample s; lines >> s.attempt >> s.epoch >> s.step >> s.row;) all.push_back(s);
    return all;
  }
  /// Add the rows of `epoch` that the ranks saw in `attempt`, up to step `last`.
  void add_rows(const std::string& name, int workers, int attempt, int epoch, int last,
                std::vector<int>& rows) const {
    for (int rank = 0; rank < workers; ++rank) {
      for (const Sample& s : seen(name, rank)) {
        if (s.attempt == attempt && s.epoch == epoch && s.step <= last) rows.push_back(s.row);
      }
    }
  }
  static std::vector<int> each_row() {
    std::vector<int> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  /// Check `before`'s first attempt up to its checkpoint and `after`'s `attempt`: each row once.
  void expect_each_row_once_an_epoch(const std::string& before, const std::string& after,
                                     int workers, int attempt) const {
    std::vector<int> rows;
    add_rows(before, 2, 0, 0, kCheckpointEvery, rows);
    EXPECT_EQ(rows.size(), 12u);
    add_rows(after, workers, attempt, 0, kForever, rows);
    EXPECT_THAT(rows, ::testing::UnorderedElementsAreArray(each_row()));
    rows.clear();
    add_rows(after, workers, attempt, 1, kForever, rows);
    EXPECT_THAT(rows, ::testing::UnorderedElementsAreArray(each_row()));
  }

  /// Return a job whose loader has a name: each step has eight of the 48 rows, at any number of
  /// workers.
  std::string named_job(const std::string& name, int workers, const std::string& config,
                        const std::string& more = "", int max_failures = 0) const {
    return cluster.job(
        name,
        fmt::format(
            "command: [{}]\nscaling_config: {{num_workers: {}, resources_per_worker: {{CPU: "
            "0}}}}\nenv: {{CUDA_VISIBLE_DEVICES: '', OMP_NUM_THREADS: '1'}}\n"
            "train_loop_config: {{named: true, rows: 48, global_batch: 8, epochs: 3, "
            "seen: '{}', {}}}\n{}",
            program("sampling_worker"), workers, cluster.path(name), config, more),
        fmt::format("  failure_config: {{max_failures: {}}}\n", max_failures));
  }
  /// Return the rows of each step of all ranks of an attempt, sorted.
  std::map<int, std::vector<int>> steps(const std::string& name, int workers, int attempt) const {
    std::map<int, std::vector<int>> rows;
    for (int rank = 0; rank < workers; ++rank) {
      for (const Sample& s : seen(name, rank))
        if (s.attempt == attempt) rows[s.step].push_back(s.row);
    }
    for (auto& [step, of_step] : rows) std::sort(of_step.begin(), of_step.end());
    return rows;
  }

  static constexpr int kForever = 1'000'000;  // steps
  Cluster cluster;
};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(Sampler, AnErrorOfLibTorchIsToldWithoutItsBacktraceAndWithOneStack) {
  Process& run = cluster.train_run({job("job", 1, 0), "--set", "train_loop_config.fails=true"});

  ASSERT_EQ(run.wait(), 1);
  const std::string all = run.out() + run.err();
  // Once while it runs, and once in the first line of the summary.
  EXPECT_EQ(count(all, "shape '[5]' is invalid for input of size 6"), 2) << all;
  EXPECT_EQ(count(all, "reshape_wrongly"), 1) << all;  // by name, without -rdynamic
  EXPECT_EQ(count(all, "frame #"), 0) << all;          // from LibTorch itself
  EXPECT_EQ(count(all, "libtorch"), 0) << all;
}

TEST_F(Sampler, AKilledRankLosesNoRowAndShowsNoneTwice) {
  Process& run = cluster.train_run({job("job", 2, /*max_failures=*/1)});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  const std::vector<Sample> first = seen("job", 1);
  // It trained on after the checkpoint; these steps are repeated.
  EXPECT_EQ(std::count_if(first.begin(), first.end(),
                          [](const Sample& s) { return s.attempt == 0 && s.step == 4; }),
            2);
  EXPECT_EQ(first.back().attempt, 1);
  expect_each_row_once_an_epoch("job", "job", 2, /*attempt=*/1);
}

TEST_F(Sampler, TheRestOfAnEpochIsDealtOutToMoreRanks) {
  Process& first = cluster.train_run({job("job", 2, /*max_failures=*/0)});
  ASSERT_NE(first.wait().value_or(0), 0) << first.out() << first.err();

  Process& second = cluster.train_run({job(
      "more", 3, 0,
      "resume_from_checkpoint: " + cluster.run_dir("job") + "/checkpoints/checkpoint_000001\n")});

  ASSERT_EQ(second.wait(), 0) << second.out() << second.err();
  expect_each_row_once_an_epoch("job", "more", 3, /*attempt=*/0);
}

TEST_F(Sampler, AKilledRunContinuesANamedLoaderAtOtherSizesAsIfNothingHadBeen) {
  ASSERT_EQ(cluster.run({named_job("plain", 1, "checkpoint_every: 100, die_rank: -1")}), 0);
  const auto undisturbed = steps("plain", 1, 0);
  ASSERT_EQ(undisturbed.size(), 18u);
  EXPECT_EQ(undisturbed.at(1).size(), 8u);

  // Rank 1 is killed in the second epoch, after the checkpoint of step 8.
  Process& first =
      cluster.train_run({named_job("two", 2, "checkpoint_every: 8, die_rank: 1, die_step: 10")});
  ASSERT_NE(first.wait().value_or(0), 0) << first.out() << first.err();
  const std::string from = cluster.run_dir("two") + "/checkpoints/checkpoint_000001";
  for (const int workers : {1, 4}) {
    const std::string name = fmt::format("of_{}", workers);
    Process& second =
        cluster.train_run({named_job(name, workers, "checkpoint_every: 100, die_rank: -1",
                                     "resume_from_checkpoint: " + from + "\n")});
    ASSERT_EQ(second.wait(), 0) << second.out() << second.err();

    auto all = steps("two", 2, 0);
    all.erase(all.upper_bound(8), all.end());
    all.merge(steps(name, workers, 0));
    EXPECT_EQ(all, undisturbed) << workers;
  }
}

TEST_F(Sampler, ANamedLoaderWhoseLoopIsLeftContinuesAsIfNothingHadBeen) {
  ASSERT_EQ(
      cluster.run({named_job("plain", 2, "leave_after: 4, checkpoint_every: 100, die_rank: -1")}),
      0);
  const auto undisturbed = steps("plain", 2, 0);
  ASSERT_EQ(undisturbed.size(), 12u);

  // Killed in the second epoch: the checkpoint is that of the first one's end.
  Process& killed = cluster.train_run(
      {named_job("killed", 2, "leave_after: 4, checkpoint_every: 100, die_rank: 0, die_step: 6", "",
                 /*max_failures=*/1)});
  ASSERT_EQ(killed.wait(), 0) << killed.out() << killed.err();

  auto all = steps("killed", 2, 0);
  all.erase(all.upper_bound(4), all.end());
  all.merge(steps("killed", 2, 1));
  EXPECT_EQ(all, undisturbed);
}

}  // namespace
}  // namespace train::e2e
