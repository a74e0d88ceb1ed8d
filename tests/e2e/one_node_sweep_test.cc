// train-run sweep with real trials on one machine (docs/sweep.md).
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/e2e/sweep_fixture.h"

namespace train::e2e {
namespace {

TEST_F(Sweep, TriesAllAndKnowsTheBest) {
  Process& sweep = cluster.train_run(
      {"sweep", job("  num_trials: 6\n  max_concurrent_trials: 2\n  points: [{x: 0.125}]\n"
                    "  parameters: {x: {uniform: [0.125, 2]}, more: {choice: [a, b]}}\n")});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();

  EXPECT_TRUE(contains(sweep.out(), "job: 6 trials (random), min of loss is the best, 2 at once\n"))
      << sweep.out();
  EXPECT_TRUE(contains(sweep.out(), "trial 0 finished: loss 0.625 at epoch 2, the best so far\n"));
  EXPECT_TRUE(contains(sweep.out(), "6 of 6 trials: 6 finished\n")) << sweep.out();
  EXPECT_TRUE(contains(sweep.out(), "best: trial 0, loss 0.625: x=0.125 more="));
  EXPECT_EQ(states(), Words(6, "finished"));
  EXPECT_EQ(std::filesystem::read_symlink(folder() + "/best"), "trials/0000");
  EXPECT_TRUE(exists(folder() + "/best/exit.json"));

  std::istringstream table(read_file(folder() + "/trials.csv"));
  std::string head, first;
  std::getline(table, head);
  std::getline(table, first);
  EXPECT_EQ(head, "trial,state,time,value,best,best_time,exit_code,x,more");
  EXPECT_TRUE(first.starts_with("0,finished,2,0.625,0.625,2,0,0.125,")) << first;

  Process& logs = cluster.train_run({"logs", folder() + "/0"});
  EXPECT_EQ(logs.wait(), 0) << logs.err();
  EXPECT_TRUE(contains(logs.out(), "x is 0.125, trial 0\n")) << logs.out();
  Process& shown = cluster.train_run({"status", "job", "--storage-path", cluster.storage()});
  EXPECT_EQ(shown.wait(), 0) << shown.err();
  EXPECT_TRUE(contains(shown.out(), "state:      ended, exit code 0\n")) << shown.out();
  EXPECT_TRUE(contains(shown.out(), "\n0*     finished  2      0.625")) << shown.out();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.run({"resume", folder()}), 73) << "nothing is left to do";
  EXPECT_EQ(cluster.run({"sweep", cluster.path("job.yaml")}), 73) << "its folder is taken";
}

TEST_F(Sweep, TrialsShareTheMachinesCores) {
  Process& sweep = cluster.train_run(
      {"sweep",
       job(grid(400, 400), "epochs: 1, hold_at: [0], hold_file: " + cluster.path("go"), "", "1"),
       "--set", "train_loop_config.mode=epochs"});
  int cores = 0;  // as the first line says
  ASSERT_TRUE(wait_until([&] {
    const std::size_t at = sweep.out().find("is the best, ");
    if (at != std::string::npos) cores = std::stoi(sweep.out().substr(at + 13));
    return cores > 0;
  })) << sweep.err();
  const auto workers = [&] { return static_cast<int>(cluster.workers().size()); };
  ASSERT_TRUE(wait_until([&] { return workers() == cores; })) << sweep.out() << sweep.err();
  // All of them hold: more would have been started at the same time.
  EXPECT_EQ(states().size(), static_cast<std::size_t>(cores));
  int trainds = 0;
  for (const Seen& one : cluster.processes("traind"))
    trainds += contains(one.command, "--private") ? 1 : 0;
  EXPECT_EQ(trainds, 1);
  sweep.signal(SIGTERM);
  EXPECT_EQ(sweep.wait(), 75) << sweep.out() << sweep.err();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Sweep, AshaStopsTheWorseOnes) {
  Process& sweep = cluster.train_run(
      {"sweep",
       job(grid(5, 1) + "  scheduler: {asha: {max_time: 8, divisor: 2, mode: aggressive}}\n",
           "epochs: 1000000"),
       "--output", "json"});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), Words(5, "stopped"));
  // The first one goes up to the last rung; each other is worse, and stops at the first.
  const auto metrics = cluster.json_lines(read_file(trial(0) + "/metrics.jsonl"));
  EXPECT_GE(metrics.size(), 8u);
  std::vector<std::string> decided;
  for (const auto& record : cluster.json_lines(read_file(folder() + "/sweep.jsonl")))
    if (record.at("event") == "trial_reported")
      decided.push_back(boost::json::serialize(record.at("trial")) + " at " +
                        std::to_string(record.at("at").to_number<int>()));
  EXPECT_EQ(decided, (Words{"0 at 2", "0 at 4", "0 at 8", "1 at 2", "2 at 2", "3 at 2", "4 at 2"}));
  const auto events = cluster.json_lines(sweep.out());
  EXPECT_EQ(events.front().at("event"), "sweep_started");
  EXPECT_EQ(events.back().at("event"), "end");
  EXPECT_EQ(events.back().at("best").at("trial"), 0);
  const auto exit = boost::json::parse(read_file(trial(4) + "/exit.json"));
  EXPECT_EQ(exit.at("code"), 0) << "a stopped trial has succeeded";
}

TEST_F(Sweep, InLockStepATrialStopsAtExactlyItsRung) {
  Process& sweep = cluster.train_run(
      {"sweep",
       job(grid(4, 2) + "  lock_step: true\n"
                        "  scheduler: {asha: {max_time: 8, divisor: 2, mode: aggressive}}\n",
           "ahead: 0, epochs: 1000000")});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), Words(4, "stopped"));
  for (int i = 0; i < 4; ++i) {
    const auto reports = cluster.json_lines(read_file(trial(i) + "/metrics.jsonl")).size();
    EXPECT_TRUE(reports == 2 || reports == 4 || reports == 8) << "trial " << i << ": " << reports;
  }
  EXPECT_EQ(cluster.json_lines(read_file(trial(0) + "/metrics.jsonl")).size(), 8u) << "the best";
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Sweep, StopsInGoodOrderAndGoesOn) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(4, 2), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {
    return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json") &&
           exists(trial(1) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  sweep.signal(SIGTERM);
  EXPECT_EQ(sweep.wait(), 75) << sweep.out() << sweep.err();
  EXPECT_TRUE(contains(sweep.out(), "go on with: train-run resume " + folder())) << sweep.out();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(states(), (Words{"running", "running"}));
  EXPECT_EQ(status().at("state"), "interrupted");

  cluster.write("go", "");
  // What stands for options is not the trials': this would run the new ones elsewhere.
  Process& again =
      cluster.train_run({"resume", folder()}, {.env = {{"TRAINRUN_SSH", "gpu.invalid"}}});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), Words(4, "finished"));
  EXPECT_FALSE(contains(read_file(trial(3) + "/spec.resolved.yaml"), "gpu.invalid"));
  const auto metrics = cluster.json_lines(read_file(trial(0) + "/metrics.jsonl"));
  EXPECT_EQ(metrics.size(), 3u) << "it has gone on from its checkpoint";
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Sweep, AKilledSweepLeavesNothingAndLosesNoTrial) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(4, 2), "epochs: 3, hold_above: 1, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {  // trial 0 has ended; 1 and 2 hold
    return exists(trial(1) + "/checkpoints/checkpoint_000001/.manifest.json") &&
           exists(trial(2) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  sweep.signal(SIGKILL);
  EXPECT_EQ(sweep.wait(), 137);
  // At once, while its trials are still stopping.
  cluster.write("go", "");
  Process& again = cluster.train_run({"resume", folder()});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), Words(4, "finished"));
  EXPECT_EQ(fresh_starts(trial(0)), 1) << "what had ended is not done again";
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

// Its train-run has died after it had made its journal, and before it had written its specs.
TEST_F(Sweep, ATrialThatHadJustBegunToStartIsStarted) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 1), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {
    return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  sweep.signal(SIGTERM);
  EXPECT_EQ(sweep.wait(), 75) << sweep.err();
  for (const auto& entry : std::filesystem::directory_iterator(trial(0))) {
    const std::string name = entry.path().filename().string();
    if (name != ".lock" && name != ".owner" && name != "events.jsonl") remove_all(entry.path());
  }
  const std::string journal = read_file(trial(0) + "/events.jsonl");
  std::ofstream(trial(0) + "/events.jsonl") << journal.substr(0, journal.find('\n') + 1);
  cluster.write("go", "");
  Process& again = cluster.train_run({"resume", folder()});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), Words(2, "finished"));
}

TEST_F(Sweep, ATrialThatAnotherTrainRunHasIsNotLostWhenTheSweepIsStopped) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 1), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {
    return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  // It takes the trial over, and goes on with its worker.
  Process& other = cluster.train_run({"resume", trial(0), "--force"});
  ASSERT_TRUE(wait_until([&] { return contains(sweep.err(), "waiting for trial 0"); }))
      << sweep.out() << sweep.err() << other.err();
  sweep.signal(SIGINT);
  EXPECT_EQ(sweep.wait(), 130) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), Words{"running"}) << "it is not recorded as failed";
  EXPECT_FALSE(contains(read_file(folder() + "/sweep.jsonl"), "trial_ended"));
  other.signal(SIGTERM);
  EXPECT_EQ(other.wait(), 75) << other.err();
  cluster.write("go", "");
  Process& again = cluster.train_run({"resume", folder()});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), Words(2, "finished"));
}

TEST_F(Sweep, IsStoppedAlsoWhileItWaitsForATrialThatAnotherHas) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 1), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go") +
                                    ", end_file: " + cluster.path("end"))});
  ASSERT_TRUE(wait_until([&] {
    return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  sweep.signal(SIGTERM);
  EXPECT_EQ(sweep.wait(), 75) << sweep.out() << sweep.err();
  Process& other = cluster.train_run({"resume", trial(0)});
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 1; })) << other.err();
  // One that was for an owner that has died.
  std::ofstream(folder() + "/.stop") << "stop elsewhere 1 2026-01-01T00:00:00Z\n";
  Process& again = cluster.train_run({"resume", folder()});
  ASSERT_TRUE(wait_until([&] { return contains(again.err(), "waiting for trial 0"); }))
      << again.out() << again.err();

  EXPECT_EQ(cluster.run({"stop", folder()}), 0);

  EXPECT_EQ(again.wait(), 130) << again.out() << again.err();
  other.signal(SIGTERM);
  EXPECT_EQ(other.wait(), 75) << other.err();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Sweep, AKilledSweepLeavesNoProcess) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 2), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 2; }))
      << sweep.out() << sweep.err();
  sweep.signal(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Sweep, WhenAllLaunchersAreKilledTheTrialsWorkersAreFoundAgain) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 2), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {
    return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json") &&
           exists(trial(1) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  const auto launchers = cluster.processes("--driver-fd");
  ASSERT_EQ(launchers.size(), 2u);
  sweep.signal(SIGKILL);
  for (const Seen& launcher : launchers) send_signal(launcher.pid, SIGKILL);
  EXPECT_EQ(sweep.wait(), 137);
  Process& again = cluster.train_run({"resume", folder()});
  cluster.write("go", "");
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), Words(2, "finished"));
  // Each epoch is reported, and none is lost; one more begins anew only if a trial had to restart.
  for (const int number : {0, 1}) {
    std::vector<int> epochs;
    for (const auto& report : cluster.json_lines(read_file(trial(number) + "/metrics.jsonl")))
      epochs.push_back(report.at("metrics").at("epoch").to_number<int>());
    EXPECT_EQ(std::count(epochs.begin(), epochs.end(), 1), 1) << "it went on, not from the start";
    EXPECT_EQ(epochs.back(), 3);
  }
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Sweep, ATornJournalIsToleratedAndAChangedOneRefused) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 1), "epochs: 3, hold_above: 1, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {  // trial 0 has ended; 1 holds
    return exists(trial(1) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  sweep.signal(SIGTERM);
  EXPECT_EQ(sweep.wait(), 75);
  const std::string path = folder() + "/sweep.jsonl", whole = read_file(path);

  // A record in the middle that somebody has changed: its checksum is wrong.
  std::string changed = whole;
  changed.replace(changed.find("trial_started"), 13, "trial_stARted");
  std::ofstream(path) << changed;
  EXPECT_EQ(cluster.run({"resume", folder()}), 65);
  EXPECT_EQ(read_file(path), changed) << "it is left as it was";

  std::ofstream(path) << whole + whole.substr(0, 40);
  cluster.write("go", "");
  Process& again = cluster.train_run({"resume", folder()});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), Words(2, "finished"));
  EXPECT_EQ(fresh_starts(trial(0)), 1);
}

TEST_F(Sweep, ATrialWhoseTrainRunIsKilledGoesOn) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(1, 1), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {
    return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  const auto launchers = cluster.processes("--driver-fd");
  ASSERT_EQ(launchers.size(), 1u);
  send_signal(launchers[0].pid, SIGKILL);
  cluster.write("go", "");
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_TRUE(
      contains(sweep.err(), "the train-run of trial 0 was killed by signal 9: it is resumed"))
      << sweep.err();
  EXPECT_EQ(states(), Words{"finished"});
}

TEST_F(Sweep, IsGivenUpIfTheFirstThreeTrialsFailAlike) {
  Process& sweep = cluster.train_run({"sweep", job(grid(50, 1), "fail_above: 0")});
  EXPECT_EQ(sweep.wait(), 1) << sweep.out() << sweep.err();
  EXPECT_TRUE(
      contains(sweep.err(), "the sweep failed: the first 3 trials failed alike: rank 0 on "))
      << sweep.err();
  EXPECT_EQ(states(), Words(3, "failed"));
}

TEST_F(Sweep, MistakesOfTheSpecThatATrialHasAreToldOnce) {
  Process& sweep = cluster.train_run(
      {"sweep", job("  search: grid\n  parameters: {x: 1, spec.scaling_config.num_worker: {choice: "
                    "[1, 2, 3, 4]}}\n")});
  EXPECT_EQ(sweep.wait(), 78) << sweep.out() << sweep.err();
  EXPECT_TRUE(contains(sweep.err(),
                       "first 3 trials failed alike: \"num_worker\" is not a key of "
                       "scaling_config"))
      << sweep.err();
}

TEST_F(Sweep, AnInvalidTrialIsReplaced) {
  Process& sweep = cluster.train_run(
      {"sweep", job("  num_trials: 2\n  max_concurrent_trials: 1\n  points: [{x: 1}, {x: 2}]\n"
                    "  parameters: {x: {uniform: [0, 2]}}\n",
                    "invalid_above: 1.99999")});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), (Words{"finished", "invalid", "finished"}));
}

TEST_F(Sweep, OneTrialCanBeStopped) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 2), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] {
    return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json") &&
           exists(trial(1) + "/checkpoints/checkpoint_000001/.manifest.json");
  })) << sweep.out()
      << sweep.err();
  EXPECT_EQ(cluster.run({"stop", folder(), "--trial", "1"}), 0);
  ASSERT_TRUE(wait_until([&] { return states() == (Words{"running", "stopped"}); }));
  cluster.write("go", "");
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), (Words{"finished", "stopped"}));
}

TEST_F(Sweep, AllOfItCanBeStopped) {
  Process& sweep = cluster.train_run(
      {"sweep", job(grid(2, 2), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"))});
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 2; }))
      << sweep.out() << sweep.err();
  EXPECT_EQ(cluster.run({"stop", folder()}), 0);
  EXPECT_EQ(sweep.wait(), 130) << sweep.out() << sweep.err();
  EXPECT_EQ(cluster.run({"stop", folder()}), 1) << "it is not running";
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

// ---- population based training

/// Return the records of the sweep's journal of this kind.
std::vector<boost::json::object> records_of(const std::string& folder, const std::string& event) {
  std::vector<boost::json::object> records;
  std::istringstream lines(read_file(folder + "/sweep.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    boost::system::error_code ec;
    const auto record = boost::json::parse(line, ec);
    if (!ec && record.is_object() && text_of(record.as_object(), "event") == event)
      records.push_back(record.as_object());
  }
  return records;
}

/// Check that each part of a trial began with the report that follows on the checkpoint that it
/// took over.
void expect_parts_follow(Cluster& cluster, const std::string& folder) {
  for (const auto& record : records_of(folder, "trial_exploited")) {
    const std::string run = fmt::format("{}/trials/{:04}.{}", folder, record.at("trial").as_int64(),
                                        record.at("part").as_int64());
    const auto metrics = cluster.json_lines(read_file(run + "/metrics.jsonl"));
    if (metrics.empty()) continue;  // it took over again before it had reported anything
    EXPECT_EQ(metrics.front().at("metrics").at("epoch").as_int64(),
              static_cast<std::int64_t>(record.at("at").to_number<double>()) + 1)
        << run;
    EXPECT_TRUE(contains(read_file(run + "/spec.resolved.yaml"),
                         "/donors/" + std::string(record.at("checkpoint").as_string())))
        << run;
  }
}

TEST_F(Sweep, PbtLetsAWorseTrialGoOnFromABetterOnesCheckpoint) {
  Process& sweep = cluster.train_run(
      {"sweep",
       job("  search: grid\n  max_concurrent_trials: 2\n  parameters: {x: {choice: [1, 4]}}\n"
           "  scheduler: {pbt: {interval: 20, resample: 0}}\n",
           "epochs: 60, hold_above: 3, hold_file: " + cluster.path("go") +
               ", end_file: " + cluster.path("end"))});
  ASSERT_TRUE(wait_until([&] { return !records_of(folder(), "trial_checkpointed").empty(); }))
      << sweep.out() << sweep.err();
  EXPECT_TRUE(records_of(folder(), "trial_exploited").empty());
  cluster.write("go", "");
  ASSERT_TRUE(wait_until([&] { return !read_file(trial(1) + ".2/metrics.jsonl").empty(); }))
      << sweep.out() << sweep.err();
  cluster.write("end", "");
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();

  EXPECT_TRUE(contains(sweep.out(), "trial 1 goes on from trial 0 at epoch ")) << sweep.out();
  EXPECT_EQ(states(), Words(2, "finished"));
  const auto first = records_of(folder(), "trial_exploited").at(0);
  EXPECT_EQ(first.at("trial").as_int64(), 1);
  EXPECT_EQ(first.at("from").as_int64(), 0);
  expect_parts_follow(cluster, folder());
  const auto shown = status().at("trials").as_array()[1].as_object();
  EXPECT_GE(shown.at("part").as_int64(), 2);
  EXPECT_EQ(shown.at("from").as_int64(), 0);
  EXPECT_TRUE(exists(trial(1) + "/exit.json"));
  EXPECT_TRUE(std::filesystem::is_empty(folder() + "/donors")) << "nobody needs them any more";
  Process& logs = cluster.train_run({"logs", folder() + "/1"});
  EXPECT_EQ(logs.wait(), 0) << logs.err();
  EXPECT_TRUE(contains(logs.out(), "trial 1\n")) << logs.out();
}

TEST_F(Sweep, PbtGoesOnAfterItsDriverHasDied) {
  const std::string spec =
      job("  search: grid\n  max_concurrent_trials: 2\n  parameters: {x: {choice: [1, 4]}}\n"
          "  scheduler: {pbt: {interval: 5, quantile: 0.5}}\n",
          "epochs: 1000000");
  Process* sweep = &cluster.train_run({"sweep", spec});
  for (std::size_t deaths = 1; deaths <= 4; ++deaths) {
    const std::size_t before = records_of(folder(), "trial_exploited").size();
    ASSERT_TRUE(wait_until([&] {
      return records_of(folder(), "trial_exploited").size() > before + deaths;
    })) << sweep->out()
        << sweep->err();
    sweep->signal(SIGKILL);
    EXPECT_EQ(sweep->wait(), 137);
    sweep = &cluster.train_run({"resume", folder()});
  }
  ASSERT_TRUE(wait_until([&] {
    const boost::json::object shown =
        status();  // of the last one, not what the killed one has left
    return shown.contains("running") && shown.at("running").as_bool();
  })) << sweep->out()
      << sweep->err();
  EXPECT_EQ(states(), Words(2, "running"));
  EXPECT_EQ(cluster.run({"stop", folder()}), 0);
  EXPECT_EQ(sweep->wait(), 130) << sweep->out() << sweep->err();

  EXPECT_TRUE(records_of(folder(), "trial_ended").empty());
  expect_parts_follow(cluster, folder());
  std::map<std::int64_t, std::int64_t> parts;
  for (const auto& record : records_of(folder(), "trial_exploited"))
    EXPECT_EQ(record.at("part").as_int64(), ++parts[record.at("trial").as_int64()] + 1);
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Sweep, GoesOnWithMoreTrials) {
  const std::string spec =
      job("  num_trials: 2\n  parameters: {x: {uniform: [0, 1]}}\n  seed: 5\n");
  EXPECT_EQ(cluster.run({"sweep", spec}), 0);
  Process& more = cluster.train_run({"sweep", "--more", "2", folder()});
  EXPECT_EQ(more.wait(), 0) << more.out() << more.err();
  EXPECT_TRUE(contains(more.out(), "4 of 4 trials: 4 finished\n")) << more.out();
  EXPECT_EQ(states(), Words(4, "finished"));
  EXPECT_EQ(cluster.run({"resume", folder()}), 73) << "it has ended again";
  // The new trials have the values that a sweep of four would have tried.
  std::vector<double> values;
  const boost::json::object shown = status();
  for (const auto& trial : shown.at("trials").as_array())
    values.push_back(trial.at("parameters").at("x").to_number<double>());
  EXPECT_EQ(cluster.run({"sweep", spec, "--set", "sweep.num_trials=4", "--name", "four"}), 0);
  Process& four = cluster.train_run({"status", cluster.run_dir("four"), "--output", "json"});
  EXPECT_EQ(four.wait(), 0);
  const auto all = cluster.json_lines(four.out());
  ASSERT_EQ(all.size(), 1u);
  for (const auto& trial : all[0].at("trials").as_array())
    EXPECT_EQ(trial.at("parameters").at("x").to_number<double>(),
              values.at(static_cast<std::size_t>(trial.at("trial").as_int64())));

  Process& none = cluster.train_run({"sweep", "--more", "2", cluster.path("none")});
  EXPECT_EQ(none.wait(), 66);
  EXPECT_TRUE(contains(none.err(), "there is no sweep " + cluster.path("none"))) << none.err();
  Process& set = cluster.train_run({"sweep", "--more", "2", folder(), "--set", "sweep.seed=6"});
  EXPECT_EQ(set.wait(), 2);
  EXPECT_EQ(cluster.run({"sweep", job(grid(1, 1)), "--name", "grid"}), 0);
  Process& grid = cluster.train_run({"sweep", "--more", "2", cluster.run_dir("grid")});
  EXPECT_EQ(grid.wait(), 2);
  EXPECT_TRUE(contains(grid.err(), "has all its trials: its search is grid")) << grid.err();
}

TEST_F(Sweep, OnlyTheBestTrialsKeepTheirCheckpoints) {
  const std::string spec =
      job("  keep_trials: 1\n  search: grid\n  max_concurrent_trials: 1\n"
          "  parameters: {x: {choice: [2, 1, 3]}}\n");
  Process& sweep = cluster.train_run({"sweep", spec});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(sweep.err(), "");
  const auto kept = [&](int number) {
    int count = 0;
    for (const auto& one : std::filesystem::directory_iterator(trial(number) + "/checkpoints"))
      count += contains(one.path().filename().string(), "checkpoint_") ? 1 : 0;
    return count;
  };
  EXPECT_EQ(kept(0), 0);
  EXPECT_EQ(kept(1), 2);
  EXPECT_EQ(kept(2), 0);
  EXPECT_EQ(states(), Words(3, "finished"));
  EXPECT_TRUE(exists(trial(0) + "/metrics.jsonl"));
  EXPECT_EQ(cluster.run({"checkpoint", "list", folder() + "/0"}), 0);
}

TEST_F(Sweep, PreviewSaysWhatWouldBeTried) {
  Process& preview = cluster.train_run({"sweep",
                                        job("  num_trials: 10\n  parameters: {x: {int: [1, 1]}}\n"
                                            "  scheduler: {asha: {max_time: 1000, divisor: 5}}\n"),
                                        "--preview"});
  EXPECT_EQ(preview.wait(), 0) << preview.err();
  EXPECT_TRUE(
      preview.out().starts_with("10 trials (random), min of loss is the best\n"
                                "  7 to epoch 200\n  3 to epoch 1000\ntrial 0: x=1\n"))
      << preview.out();
  EXPECT_FALSE(exists(folder()));
}

TEST_F(Sweep, RefusesWhatItCannotDo) {
  Process& none = cluster.train_run(
      {"sweep", cluster.job("plain", "command: [" + program("sdk_worker") + "]\n")});
  EXPECT_EQ(none.wait(), 78);
  EXPECT_TRUE(contains(none.err(), "plain.yaml has no section sweep")) << none.err();
  Process& far = cluster.train_run(
      {"sweep", job(grid(1, 1)), "--set", "run_config.storage_path=s3://bucket/runs"});
  EXPECT_EQ(far.wait(), 78);
  EXPECT_TRUE(contains(far.err(), "the folder of a sweep cannot be in an object store"));
  EXPECT_EQ(cluster.run({"sweep", job(grid(1, 1))}), 0);
  Process& logs = cluster.train_run({"logs", folder()});
  EXPECT_EQ(logs.wait(), 66);
  EXPECT_TRUE(contains(logs.err(), "is a sweep, and not a run")) << logs.err();
  EXPECT_EQ(cluster.run({"resume", folder(), "--set", "train_loop_config.x=1"}), 2);
}

TEST_F(Sweep, ARunOfTheSameSpecIsOneRun) {
  EXPECT_EQ(cluster.run({"run", job(grid(3, 1)), "--set", "train_loop_config.x=5"}), 0);
  EXPECT_EQ(cluster.metrics("job").size(), 2u);
}

}  // namespace
}  // namespace train::e2e
