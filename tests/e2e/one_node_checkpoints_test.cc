// Tests train-run checkpoint on real runs' checkpoints, of finished runs and a running one.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

/// Return a job of two workers; rank 0's checkpoint of each epoch holds state.json.
std::string training(const Cluster& cluster, const std::string& name, const std::string& config,
                     const std::string& run_config = "", const std::string& more = "") {
  return cluster.job(
      name,
      "command: [" + program("sdk_worker") + "]\ntrain_loop_config: {mode: epochs, " + config +
          "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n" + more,
      run_config);
}

/// Return what `train-run checkpoint …` printed. Fail the test unless it ended with `code`.
std::string checkpoint(Cluster& cluster, std::vector<std::string> words, int code) {
  words.insert(words.begin(), "checkpoint");
  Process& process = cluster.train_run(words);
  EXPECT_EQ(process.wait(), code) << process.command() << "\n" << process.err();
  return process.out() + process.err();
}

std::string folder_of(const Cluster& cluster, int number) {
  return cluster.run_dir("job") + "/checkpoints/checkpoint_00000" + std::to_string(number);
}

TEST(Checkpoints, AreListedVerifiedAndExportedForAnotherRun) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({training(cluster, "job", "epochs: 3",
                                  "  checkpoint_config: {checkpoint_score_attribute: loss, "
                                  "checkpoint_score_order: max}")}),
            0);
  const std::string run = cluster.run_dir("job"), copy = cluster.path("copies/first");

  const auto rows = boost::json::parse(checkpoint(cluster, {"list", run, "--output", "json"}, 0));
  ASSERT_EQ(rows.as_array().size(), 3u);
  EXPECT_EQ(rows.at(0).at("path").as_string(), folder_of(cluster, 1));
  EXPECT_EQ(rows.at(0).at("world_size").as_int64(), 2);
  EXPECT_EQ(rows.at(0).at("best").as_bool(), true);
  EXPECT_EQ(rows.at(2).at("epoch").as_int64(), 2);
  EXPECT_EQ(rows.at(2).at("latest").as_bool(), true);
  EXPECT_EQ(checkpoint(cluster, {"verify", run}, 0),
            "checkpoint_000001: ok (1 file, 11 B)\ncheckpoint_000002: ok (1 file, 11 B)\n"
            "checkpoint_000003: ok (1 file, 11 B)\n3 of 3 checkpoints are intact\n");
  EXPECT_EQ(checkpoint(cluster, {"export", run, "best", copy}, 0),
            "copied checkpoint_000001 (1 file, 11 B) to " + copy + "\n");
  EXPECT_EQ(checkpoint(cluster, {"verify", copy}, 0), "first: ok (1 file, 11 B)\n");

  Process& other = cluster.train_run(
      {training(cluster, "other", "epochs: 2", "", "resume_from_checkpoint: " + copy + "\n")});
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(contains(other.out(), "restored epoch 0\n")) << other.out();
}

TEST(Checkpoints, ArePulledOnceAndPullGoesOn) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({training(cluster, "job", "epochs: 3")}), 0);
  const std::string run = cluster.run_dir("job"), copies = cluster.path("copies");
  const std::string to = " to " + copies + "/checkpoints, ";

  EXPECT_EQ(checkpoint(cluster, {"pull", run, copies, "--last", "1"}, 0),
            "1 copied" + to + "0 there already\n");
  EXPECT_EQ(checkpoint(cluster, {"pull", run, copies}, 0), "2 copied" + to + "1 there already\n");
  EXPECT_EQ(checkpoint(cluster, {"pull", run, copies}, 0), "0 copied" + to + "3 there already\n");

  EXPECT_TRUE(
      contains(checkpoint(cluster, {"verify", copies}, 0), "3 of 3 checkpoints are intact"));
  EXPECT_TRUE(contains(checkpoint(cluster, {"list", copies}, 0), "checkpoint_000003"));
}

TEST(Checkpoints, ThatAreBrokenAreSaidToBe) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({training(cluster, "job", "epochs: 3")}), 0);
  const std::string run = cluster.run_dir("job"), copies = cluster.path("copies");
  cluster.write("runs/job/checkpoints/checkpoint_000002/state.json", "{\"epoch\":7}");
  fs::remove(folder_of(cluster, 3) + "/state.json");

  const std::string listed = checkpoint(cluster, {"list", run}, 0);
  EXPECT_TRUE(contains(listed, "checkpoint_000003  cannot be used: " + folder_of(cluster, 3) +
                                   ": 'state.json': missing\n"))
      << listed;
  const std::string verified = checkpoint(cluster, {"verify", run}, 1);
  EXPECT_TRUE(contains(verified, "checkpoint_000001: ok")) << verified;
  EXPECT_TRUE(contains(verified, "checkpoint_000002: not intact: " + folder_of(cluster, 2) +
                                     ": 'state.json': xxh3-128 is "))
      << verified;
  EXPECT_TRUE(contains(verified, "1 of 3 checkpoints are intact\n")) << verified;
  checkpoint(cluster, {"verify", run, "1"}, 0);
  checkpoint(cluster, {"export", run, copies}, 65);  // the latest usable one is the second
  EXPECT_FALSE(exists(copies));
  EXPECT_TRUE(contains(checkpoint(cluster, {"pull", run, copies}, 65), "1 copied"));
}

TEST(Checkpoints, OfARunThatGoesOn) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {training(cluster, "job", "epochs: 4, hold_at: [3], hold_file: '" + cluster.path("go") + "'",
                "  checkpoint_config: {num_to_keep: 2}")});
  ASSERT_TRUE(wait_until([&] {
    return cluster.checkpoints("job") ==
           std::vector<std::string>{"checkpoint_000002", "checkpoint_000003"};
  }));

  EXPECT_EQ(checkpoint(cluster, {"verify", cluster.run_dir("job"), "latest"}, 0),
            "checkpoint_000003: ok (1 file, 11 B)\n");
  checkpoint(cluster, {"export", cluster.run_dir("job"), "2", cluster.path("second")}, 0);
  checkpoint(cluster, {"export", cluster.run_dir("job"), "1", cluster.path("first")}, 66);
  for (const char* which : {"2", "checkpoint_000002", "latest"})
    EXPECT_EQ(checkpoint(cluster, {"verify", cluster.path("second"), which}, 0),
              "second: ok (1 file, 11 B)\n");
  checkpoint(cluster, {"verify", cluster.path("second"), "1"}, 66);

  cluster.write("go-0-3", "");
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(cluster.checkpoints("job"),
            (std::vector<std::string>{"checkpoint_000003", "checkpoint_000004"}));
}

TEST(Checkpoints, OfARunWithoutAny) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({training(cluster, "job", "epochs: 1, checkpoint_every: 0")}), 0);
  const std::string none = cluster.run_dir("job") + " has no checkpoints\n";
  Process& verify = cluster.train_run({"checkpoint", "verify", cluster.run_dir("job")});

  EXPECT_EQ(checkpoint(cluster, {"list", cluster.run_dir("job")}, 0), none);
  EXPECT_EQ(verify.wait(), 66);
  EXPECT_EQ(verify.err(), "train-run: error: " + none);
  EXPECT_EQ(checkpoint(cluster, {"list", cluster.run_dir("job"), "--output", "json"}, 0), "[]\n");
}

/// A run that reports steps and makes no checkpoints by itself.
class AskedRun {
 public:
  explicit AskedRun(const std::string& how)
      : run(cluster.train_run({cluster.job(
            "job", "command: [" + program("sdk_worker") +
                       "]\ntrain_loop_config: {mode: asked, finish_file: '" +
                       cluster.path("finish") + "'" + how +
                       "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n")})) {
    EXPECT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 4; }));
  }
  /// Ask for a checkpoint, and check that both ranks made it at the same step.
  void expect_checkpoint(int number) {
    EXPECT_EQ(checkpoint(cluster, {"now", cluster.run_dir("job")}, 0),
              "checkpoint_00000" + std::to_string(number) + "\n");
    const std::string folder = folder_of(cluster, number);
    const std::string step = read_file(folder + "/rank-0");
    EXPECT_FALSE(step.empty());
    EXPECT_EQ(step, read_file(folder + "/rank-1"));
  }
  void finish() {
    cluster.write("finish", "");
    EXPECT_EQ(run.wait(), 0) << run.err();
  }

  Cluster cluster;
  Process& run;
};

TEST(CheckpointNow, OfAProgramThatAsksAndGoesOn) {
  AskedRun asked(", polls: true");
  asked.expect_checkpoint(1);
  asked.expect_checkpoint(2);
  EXPECT_TRUE(contains(checkpoint(asked.cluster, {"verify", asked.cluster.run_dir("job")}, 0),
                       "2 of 2 checkpoints are intact"));
  asked.finish();
  EXPECT_TRUE(contains(asked.run.out() + asked.run.err(), "a checkpoint was asked for"));
  EXPECT_EQ(asked.cluster.checkpoints("job").size(), 2u);
}

TEST(CheckpointNow, OfAProgramWithAStopFunction) {
  AskedRun asked(", on_stop: true");
  asked.expect_checkpoint(1);
  asked.finish();
  EXPECT_EQ(asked.cluster.checkpoints("job").size(), 1u);
}

TEST(CheckpointNow, SaysWhyThereIsNone) {
  AskedRun asked("");
  EXPECT_EQ(checkpoint(asked.cluster, {"now", asked.cluster.run_dir("job")}, 69),
            "train-run: error: no checkpoint was made: rank 0 has set no function with "
            "train::on_stop, and has not called train::checkpoint_requested()\n");
  asked.finish();
  EXPECT_EQ(
      checkpoint(asked.cluster, {"now", asked.cluster.run_dir("job")}, 69),
      "train-run: error: " + asked.cluster.run_dir("job") + " is not running: it has no workers\n");
}

}  // namespace
}  // namespace train::e2e
