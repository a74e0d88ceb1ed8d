// What the time of a run's workers was used for: in its summary, its files and `train-run status`.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

/// Write a job of two ranks. `config` continues train_loop_config.
std::string stepping(const Cluster& cluster, const std::string& config,
                     const std::string& run_config = "") {
  return cluster.job("job",
                     "command: [" + program("stepping_worker") + "]\ntrain_loop_config: {" +
                         config +
                         "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
                     run_config);
}

/// Return the seconds of each use in the member "goodput", and their sum as "all".
std::map<std::string, double> seconds_in(const boost::json::object& object) {
  std::map<std::string, double> found;
  const auto* goodput = object.if_contains("goodput");
  if (goodput == nullptr || !goodput->is_object()) return found;
  for (const auto& [use, time] : goodput->as_object().at("worker_seconds").as_object()) {
    found[use] = time.to_number<double>();
    found["all"] += time.to_number<double>();
  }
  return found;
}

double duration_of(const boost::json::object& object) {
  return object.at("duration_s").to_number<double>();
}

const boost::json::object& attempt(const boost::json::object& run, std::size_t number) {
  return run.at("attempts").as_array().at(number).as_object();
}

TEST(Goodput, OfARunWithAKilledWorkerHasWhatWasLostAndHowLongNobodyWorked) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {stepping(cluster, "steps: 60, step_ms: 40, checkpoint_every: 20, die_at: 55",
                "  failure_config: {max_failures: 1}")});
  ASSERT_EQ(run.wait(), 0) << run.err();
  const boost::json::object json = cluster.run_json("job");

  auto first = seconds_in(attempt(json, 0));
  EXPECT_GE(first["step"],
            2 * 38 * 0.040);  // of two ranks, from the first report to the second checkpoint
  EXPECT_GE(first["lost"], 2 * 13 * 0.040);  // what came after it
  EXPECT_GT(first["down"], 0);               // until the group was gone
  EXPECT_GT(first["start"], 0);
  EXPECT_GT(first["checkpoint"], 0);
  EXPECT_EQ(first.count("unknown"), 0u);
  auto second = seconds_in(attempt(json, 1));
  EXPECT_GE(second["step"], 2 * 20 * 0.040);
  EXPECT_EQ(second.count("lost"), 0u);

  auto whole = seconds_in(json);
  EXPECT_NEAR(whole["lost"], first["lost"], 1e-6);
  // Between the attempts nobody worked either.
  EXPECT_NEAR(whole["all"] - first["all"] - second["all"], whole["down"] - first["down"], 1e-6);
  EXPECT_GE(whole["down"], first["down"]);
  EXPECT_LE(whole["all"], 2 * duration_of(json) + 0.1);

  EXPECT_TRUE(contains(run.out(), "goodput      ")) << run.out();
  EXPECT_TRUE(contains(run.out(), "lost ")) << run.out();
  const std::string journal = cluster.read(cluster.run_dir("job") + "/events.jsonl");
  EXPECT_TRUE(contains(journal, "\"worker_seconds\":{\"step\":")) << journal;

  Process& status = cluster.train_run({"status", cluster.run_dir("job")});
  EXPECT_EQ(status.wait(), 0);
  EXPECT_TRUE(contains(status.out(), "\ngoodput:    ")) << status.out();
}

TEST(Goodput, OfARunThatGoesOnIsInItsStatus) {
  Cluster cluster;
  Process& run = cluster.train_run({stepping(cluster, "step_ms: 20")});
  std::string shown;
  ASSERT_TRUE(wait_until([&] {
    Process& status = cluster.train_run({"status", cluster.run_dir("job"), "--output", "json"});
    return status.wait() == 0 && contains(shown = status.out(), "\"goodput\":");
  })) << shown;
  EXPECT_TRUE(contains(shown, "\"worker_seconds\":{\"step\":")) << shown;
  run.signal(SIGINT);
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
}

TEST(Goodput, OutlivesTheLauncher) {
  Cluster cluster;
  const std::string job = stepping(cluster, "steps: 150, step_ms: 40");
  Process& first = cluster.train_run({job});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 100; }));
  first.signal(SIGKILL);
  first.wait();
  ASSERT_EQ(cluster.run({"resume", cluster.run_dir("job")}), 0);

  const boost::json::object json = cluster.run_json("job");
  ASSERT_EQ(json.at("attempts").as_array().size(), 1u);
  auto whole = seconds_in(json);
  EXPECT_GE(whole["step"], 2 * 145 * 0.040);  // also what the first launcher saw
  EXPECT_NEAR(whole["all"], 2 * duration_of(json), 2);
}

TEST(Goodput, OfAProgramWithoutTheSdkIsUnknown) {
  Cluster cluster;
  Process& run = cluster.train_run({cluster.job("job", "command: [sleep, '0.3']")});
  ASSERT_EQ(run.wait(), 0) << run.err();
  auto whole = seconds_in(cluster.run_json("job"));
  EXPECT_GT(whole["unknown"], 0);
  EXPECT_GE(whole["start"] + whole["unknown"], 0.3);  // it begins before the launcher hears of that
  EXPECT_EQ(whole.count("step"), 0u);
  EXPECT_FALSE(contains(run.out(), "goodput")) << run.out();
}

}  // namespace
}  // namespace train::e2e
