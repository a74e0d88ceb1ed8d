// The SDK's calls between real processes: collectives, reports from many threads and
// ranks, checkpoints of several ranks, and datasets.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::string sdk_job(const Cluster& cluster, int workers, const std::string& config,
                    const std::string& run_config = "", const std::string& more = "",
                    const std::string& worker = "sdk_worker") {
  return cluster.job("job",
                     "command: [" + program(worker) + "]\ntrain_loop_config: {" + config +
                         "}\nscaling_config: {num_workers: " + std::to_string(workers) +
                         ", resources_per_worker: {CPU: 0}}\n" + more,
                     run_config);
}

/// Return the number of lines per rank in metrics.jsonl. No attempt may have a report_seq twice.
std::map<std::string, int> reports_by_rank(const Cluster& cluster) {
  std::map<std::string, int> count;
  std::map<std::string, int> seen;
  for (const auto& line : cluster.metrics("job")) {
    ++count[text_of(line, "rank")];
    EXPECT_EQ(++seen[text_of(line, "attempt") + "/" + text_of(line, "rank") + "/" +
                     text_of(line, "report_seq")],
              1)
        << boost::json::serialize(line);
  }
  return count;
}

TEST(Sdk, ThreeRowsOnThreeWorkersAreOneBatchEach) {
  Cluster cluster;

  Process& run = cluster.train_run({sdk_job(
      cluster, 3, "batch_size: 1", "",
      "datasets: {train: {format: items, items: [{x: 1}, {x: 2}, {x: 3}]}}", "data_worker")});

  ASSERT_EQ(run.wait(), 0);
  const auto results = cluster.run_json("job").at("results").as_array();
  ASSERT_EQ(results.size(), 3u);
  std::vector<std::int64_t> all;
  for (const auto& result : results) {
    EXPECT_EQ(text_of(result.as_object(), "batches"), "1");
    ASSERT_EQ(result.at("rows").as_array().size(), 1u);
    all.push_back(result.at("rows").as_array().at(0).as_int64());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Sdk, ThreeWorkersShareTheLinesOfTextFiles) {
  Cluster cluster;
  std::string table = "x;note\n", lines;
  std::vector<std::int64_t> expected;
  for (int row = 0; row < 50; ++row) {
    table += std::to_string(row) + ";\"two\nlines\"\n";
    lines += R"({"note": "one", "x": )" + std::to_string(100 + row) + "}\n";
    expected.push_back(row);
  }
  const auto run_with = [&](const std::string& name, const std::string& dataset) {
    Process& run = cluster.train_run(
        {sdk_job(cluster, 3, "batch_size: 4", "",
                 "datasets: {train: {" + dataset + ", shuffle: true}}", "data_worker")});
    EXPECT_EQ(run.wait(), 0) << name << run.err();
    std::vector<std::int64_t> all;
    const auto results = cluster.run_json("job").at("results").as_array();
    for (const auto& result : results)
      for (const auto& x : result.at("rows").as_array()) all.push_back(x.as_int64());
    std::sort(all.begin(), all.end());
    std::filesystem::remove_all(cluster.run_dir("job"));
    return all;
  };

  EXPECT_EQ(run_with("csv", "path: " + cluster.write("a.csv", table) +
                                ", delimiter: \";\", newlines_in_values: true"),
            expected);
  for (std::int64_t& x : expected) x += 100;
  EXPECT_EQ(run_with("json", "path: [" + cluster.write("a.jsonl", lines) +
                                 "], columns: [x], schema: {x: int64}"),
            expected);
}

TEST(Sdk, ThreeWorkersShareMappedPicturesAndSamples) {
  Cluster cluster;
  const std::string pictures = TRAIN_SOURCE_DIR "/tests/unit/lib_data/pictures/";
  for (int number = 10; number < 22; ++number) {
    const std::string folder = cluster.path("pics/" + std::to_string(number));
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(number == 15 ? pictures + "make.py" : pictures + "rgb.png",
                               folder + "/a.png");
  }
  const auto run_with = [&](const std::string& dataset) {
    Process& run = cluster.train_run({sdk_job(
        cluster, 3, "batch_size: 4", "", "datasets: {train: {" + dataset + "}}", "data_worker")});
    EXPECT_EQ(run.wait(), 0) << run.err();
    std::vector<std::int64_t> all;
    const auto results = cluster.run_json("job").at("results").as_array();
    for (const auto& result : results)
      for (const auto& x : result.at("rows").as_array()) all.push_back(x.as_int64());
    std::sort(all.begin(), all.end());
    std::filesystem::remove_all(cluster.run_dir("job"));
    return all;
  };

  // The one that is no picture is left out.
  EXPECT_EQ(run_with("format: images, path: " + cluster.path("pics") +
                     ", size: [8, 8], shuffle: true, map: [{random_crop: {size: [4, 4]}}, "
                     "{rename: {from: label}}], on_error: {rows: skip, rows_max: 1}"),
            (std::vector<std::int64_t>{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(run_with("path: " + pictures +
                     "samples.tar.gz, columns: [cls, jpg], map: "
                     "[{decode_image: {column: jpg, size: [8, 8]}}, {rename: {from: cls}}]"),
            (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

// Rank 1 works for long on each row. In the second pass it gets fewer rows: all are still there
// once, in as many steps.
TEST(Sdk, ASlowWorkerGetsFewerRowsOfABalancedDataset) {
  Cluster cluster;
  std::string table = "x\n";
  for (int row = 0; row < 120; ++row) table += std::to_string(row) + "\n";
  const std::string data = "datasets: {train: {path: " + cluster.write("a.csv", table) + "}}\n";
  Process& run = cluster.train_run(
      {sdk_job(cluster, 2, "batch_size: 6, passes: 2, work_us: 3000", "",
               data + "dataset_config: {train: {balance: true}}", "data_worker")});
  ASSERT_EQ(run.wait(), 0) << run.err();
  std::set<std::int64_t> all;
  const auto results = cluster.run_json("job").at("results").as_array();
  for (const auto& result : results) {
    EXPECT_EQ(result.at("batches").as_int64(), 10);
    for (const auto& x : result.at("rows").as_array()) EXPECT_TRUE(all.insert(x.as_int64()).second);
  }
  EXPECT_EQ(all.size(), 120u);
  EXPECT_GT(results.at(0).at("rows").as_array().size(),
            2 * results.at(1).at("rows").as_array().size());
}

// A mix, over three real workers: each row of both datasets that has a turn comes once.
TEST(Sdk, ThreeWorkersShareAMix) {
  Cluster cluster;
  std::string small = "x\n", large = "x\n";
  for (int row = 0; row < 20; ++row) small += std::to_string(row) + "\n";
  for (int row = 100; row < 160; ++row) large += std::to_string(row) + "\n";
  Process& run =
      cluster.train_run({sdk_job(cluster, 3, "batch_size: 4", "",
                                 "datasets: {small: {path: " + cluster.write("small.csv", small) +
                                     "}, large: {path: " + cluster.write("large.csv", large) +
                                     ", shuffle: true}, train: {mix: {small: 1, large: 2}}}",
                                 "data_worker")});
  ASSERT_EQ(run.wait(), 0) << run.err();
  std::set<std::int64_t> all;
  const auto results = cluster.run_json("job").at("results").as_array();
  for (const auto& result : results)
    for (const auto& x : result.at("rows").as_array()) EXPECT_TRUE(all.insert(x.as_int64()).second);
  EXPECT_EQ(all.size(), 61u);  // large has the turn before the one that small lacks a row for
  EXPECT_EQ(std::distance(all.begin(), all.lower_bound(100)), 20);
}

// Three workers fit the preprocessors together. Whoever goes on from their checkpoint, at another
// size and with other rows, or serves the model, encodes as they did.
TEST(Sdk, WhatPreprocessorsLearnedStaysWithTheCheckpoint) {
  Cluster cluster;
  const auto write_names = [&](const std::vector<std::string>& names) {
    std::string table = "name\n";
    for (int row = 0; row < 40; ++row) table += names[row % names.size()] + "\n";
    return cluster.write("names.csv", table);
  };
  const auto encoded_by = [&](int workers, const std::string& more) {
    Process& run = cluster.train_run({sdk_job(
        cluster, workers, "batch_size: 4, checkpoint: true", "",
        "datasets: {train: {path: " + cluster.path("names.csv") +
            ", preprocessors: [{ordinal_encoder: [name]}], map: [{rename: {from: name}}]}}\n" +
            more,
        "data_worker")});
    EXPECT_EQ(run.wait(), 0) << run.err();
    std::map<std::int64_t, int> counts;
    const auto results = cluster.run_json("job").at("results").as_array();
    for (const auto& result : results)
      for (const auto& x : result.at("rows").as_array()) ++counts[x.as_int64()];
    return counts;
  };
  write_names({"d", "b", "f", "b"});
  EXPECT_EQ(encoded_by(3, ""), (std::map<std::int64_t, int>{{0, 20}, {1, 10}, {2, 10}}));
  const std::string checkpoint = cluster.path("first/checkpoints/checkpoint_000001");
  std::filesystem::rename(cluster.run_dir("job"), cluster.path("first"));

  write_names({"a", "b", "c", "d"});
  EXPECT_EQ(encoded_by(2, "resume_from_checkpoint: " + checkpoint),
            (std::map<std::int64_t, int>{{-1, 20}, {0, 10}, {1, 10}}));
  Process& server = cluster.start({program("data_worker"), "--serve", checkpoint, "f", "a", "b"});
  EXPECT_EQ(server.wait(), 0);
  EXPECT_EQ(server.out(), "2 -1 0 ");
  std::filesystem::remove(checkpoint + "/.manifest.json");
  Process& broken = cluster.start({program("data_worker"), "--serve", checkpoint, "f"});
  EXPECT_EQ(broken.wait(), 1);
  EXPECT_TRUE(contains(broken.out(), ".manifest.json")) << broken.out();
}

TEST(Sdk, CollectivesOverFourRanks) {
  Cluster cluster;

  Process& run = cluster.train_run({sdk_job(cluster, 4, "mode: collectives")});

  ASSERT_EQ(run.wait(), 0);
  const auto results = cluster.run_json("job").at("results").as_array();
  ASSERT_EQ(results.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    const auto& result = results[static_cast<std::size_t>(rank)].as_object();
    EXPECT_EQ(text_of(result, "rank"), std::to_string(rank));
    EXPECT_EQ(text_of(result, "broadcast"), R"({"rank":0})");
    const auto number = [&](const char* name) { return result.at(name).to_number<double>(); };
    EXPECT_EQ(number("mean"), 1.5);
    EXPECT_EQ(number("sum"), 6);
    EXPECT_EQ(number("min"), 0);
    EXPECT_EQ(number("max"), 3);
    EXPECT_EQ(number("ran"), 1);  // once_per_node: in one of the four, once
  }
}

TEST(Sdk, UnevenReportsAndARankThatNeverReports) {
  Cluster cluster;

  ASSERT_EQ(cluster.run({sdk_job(cluster, 3, "mode: uneven")}), 0);

  EXPECT_EQ(reports_by_rank(cluster), (std::map<std::string, int>{{"1", 3}, {"2", 6}}));
}

TEST(Sdk, ReportsFromManyThreads) {
  Cluster cluster;

  ASSERT_EQ(cluster.run({sdk_job(cluster, 2, "mode: threads, threads: 16, reports: 200")}), 0);

  EXPECT_EQ(reports_by_rank(cluster), (std::map<std::string, int>{{"0", 3200}, {"1", 3200}}));
  std::map<std::string, std::int64_t> next;  // each thread's own order is kept
  for (const auto& line : cluster.metrics("job")) {
    const auto& metrics = line.at("metrics").as_object();
    EXPECT_EQ(metrics.at("i").as_int64(),
              next[text_of(line, "rank") + "/" + text_of(metrics, "thread")]++);
  }
}

TEST(Sdk, TwoRanksWithDifferentBytesInOneFileFailThatCheckpointAndTrainingGoesOn) {
  Cluster cluster;

  Process& run = cluster.train_run({sdk_job(cluster, 2, "mode: collision")});

  ASSERT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "shared.txt")) << run.out();
  const std::vector<std::string> kept = cluster.checkpoints("job");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/checkpoints/" + kept[0] + "/shared.txt"),
            "same");
}

TEST(Sdk, ACheckpointOfAHundredThousandFilesIsRefusedByNameAndTrainingGoesOn) {
  Cluster cluster;

  Process& run = cluster.train_run({sdk_job(cluster, 1, "mode: many_files, files: [100000, 3]")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "has 100000 files")) << run.out();
  EXPECT_TRUE(contains(run.out(), "write fewer, larger files")) << run.out();
  EXPECT_EQ(cluster.checkpoints("job").size(), 1u);
  EXPECT_EQ(reports_by_rank(cluster), (std::map<std::string, int>{{"0", 2}}));
}

ino_t inode_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_ino;
}

class SdkInPlace : public testing::TestWithParam<bool> {};

TEST_P(SdkInPlace, FilesThatAProgramWroteItselfAreCommittedWithoutACopy) {
  const std::string after_report = GetParam() ? "true" : "false";
  Cluster cluster;

  Process& run = cluster.train_run(
      {sdk_job(cluster, 2,
               "mode: big, bytes: 3000000, epochs: 3, in_place: true, die_rank: 1, die_epoch: 1, "
               "die_after_report: " +
                   after_report,
               "  failure_config: {max_failures: 1}")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), " whole\n")) << run.out();  // from the start of attempt 1
  const std::string folder = cluster.run_dir("job");
  EXPECT_EQ(
      cluster.checkpoints("job"),
      (std::vector<std::string>{"checkpoint_000001", "checkpoint_000002", "checkpoint_000003"}));
  EXPECT_EQ(cluster.run({"checkpoint", "verify", folder}), 0);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const std::string rank : {"0", "1"}) {
      const std::string file = folder + "/checkpoints/checkpoint_00000" +
                               std::to_string(epoch + 1) + "/rank-" + rank + "/state.bin";
      EXPECT_EQ(std::to_string(inode_of(file)),
                cluster.read(folder + "/inode-" + std::to_string(epoch) + "-" + rank));
    }
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/checkpoints"))
    EXPECT_FALSE(contains(entry.path(), "/.tmp-") || contains(entry.path(), "/.staging-"))
        << entry.path();
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/written"));
}
INSTANTIATE_TEST_SUITE_P(KilledBeforeAndAfterTheReport, SdkInPlace, testing::Bool());

TEST(Sdk, KeepsTheTwoBestByScoreAndTheNewest) {
  Cluster cluster;

  ASSERT_EQ(cluster.run({sdk_job(cluster, 1, "mode: scores, scores: [0.1, 0.9, 0.5, 0.4]",
                                 "  checkpoint_config: {num_to_keep: 2, "
                                 "checkpoint_score_attribute: acc, checkpoint_score_order: max}")}),
            0);

  EXPECT_EQ(
      cluster.checkpoints("job"),
      (std::vector<std::string>{"checkpoint_000002", "checkpoint_000003", "checkpoint_000004"}));
  const auto exit = cluster.exit_json("job");
  EXPECT_TRUE(contains(text_of(exit, "best_checkpoint"), "checkpoint_000002"))
      << text_of(exit, "best_checkpoint");
  EXPECT_TRUE(contains(text_of(exit, "checkpoint"), "checkpoint_000004"))
      << text_of(exit, "checkpoint");
}

TEST(Sdk, EveryReportIsThereOnceAfterTheDaemonAndAWorkerAreKilled) {
  Cluster cluster;
  const std::string die = cluster.path("die"), go = cluster.path("go");
  Process& run = cluster.train_run({sdk_job(cluster, 2,
                                            "mode: epochs, epochs: 60, checkpoint_every: 0, "
                                            "die_rank: 1, die_epoch: 59, die_after_file: '" +
                                                die + "', hold_at: [20], hold_file: '" + go + "'",
                                            "  failure_config: {max_failures: 1}")});
  const auto daemon = [&] {
    const std::vector<Seen> seen = cluster.processes("traind --private");
    return seen.empty() ? -1 : seen.front().pid;
  };
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "epoch "); }));
  const pid_t first = daemon();

  send_signal(first, SIGKILL);
  cluster.write("go-0-20", "");  // they report while there is no daemon
  ASSERT_TRUE(wait_until([&] { return daemon() != -1 && daemon() != first; }));
  ASSERT_TRUE(wait_until([&] {
    const std::string text = cluster.read(cluster.run_dir("job") + "/metrics.jsonl");
    return contains(text, "\"rank\":0,\"attempt\":0,\"report_seq\":60,") &&
           contains(text, "\"rank\":1,\"attempt\":0,\"report_seq\":59,");
  }));
  cluster.write("die", "");

  // Rank 0 may have ended by then. The log has its 60 reports of attempt 0, rank 1's 59, and 60 of
  // each rank in attempt 1.
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(reports_by_rank(cluster), (std::map<std::string, int>{{"0", 120}, {"1", 119}}));
}

}  // namespace
}  // namespace train::e2e
