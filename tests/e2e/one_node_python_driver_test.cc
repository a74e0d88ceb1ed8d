// trainrun.Trainer: programs in Python that start train-run and follow the run. It loads the
// libtrainrun.so of the build.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

using Words = std::vector<std::string>;

class PythonDrivers : public testing::Test {
 protected:
  Process& drive(const std::string& mode, const std::string& job = "",
                 const std::string& python = "python3",
                 const std::string& driver = "trainrun_driver.py") {
    Words words{python, TRAIN_SOURCE_DIR "/tests/e2e/programs/" + driver, mode};
    if (!job.empty()) words.push_back(job);
    return cluster.start(words, {.env = {{"TRAINRUN_PROGRAM", built("train-run")},
                                         {"TRAINRUN_LIBRARY", LIBTRAINRUN},
                                         {"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"},
                                         {"PYTHONDONTWRITEBYTECODE", "1"},
                                         {"RUNS", cluster.storage()}},
                                 .prefix = {},
                                 .cwd = ""});
  }
  /// Write a job of sdk_worker with two workers. `config` are members of its train_loop_config.
  std::string job(const std::string& config, const std::string& run_config = "") const {
    return cluster.job("job",
                       "command: [" + program("sdk_worker") +
                           "]\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n" +
                           "train_loop_config: {" + config + "}",
                       run_config);
  }
  Words told(const Process& driver, const std::string& beginning) const {
    Words lines;
    std::istringstream stream(driver.out());
    for (std::string line; std::getline(stream, line);)
      if (line.starts_with(beginning)) lines.push_back(line);
    return lines;
  }
  Cluster cluster;
};

TEST_F(PythonDrivers, AFunctionIsTheTrainingLoop) {
  Process& driver = drive("loop");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_EQ(
      told(driver, "result "),
      (Words{R"(result succeeded code 0 metrics {"epoch": 1, "rank": 0} returned {"rank": 0} )"
             R"(checkpoints 2 newest {"epoch": 1})"}))
      << driver.out();
  EXPECT_EQ(boost::json::serialize(cluster.run_json("job").at("results")),
            R"([{"rank":0},{"rank":1}])");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonDrivers, WithoutWorkersALoopRunsAlone) {
  Process& driver = drive("alone");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_EQ(told(driver, "round "),
            (Words{"round 0.1 ordinal 1 checkpoint 0", "round 0.2 ordinal 2 checkpoint 1"}));
  EXPECT_EQ(told(driver, "result "),
            Words{R"(result succeeded code 0 metrics {"epoch": 1, "rank": 0} returned )"
                  R"({"rank": 0} checkpoints 2 newest {"epoch": 1})"});
  EXPECT_EQ(told(driver, "ValueError "), Words{"ValueError the learning rate is 0"});
  EXPECT_EQ(told(driver, "large "), Words{"large 200000"});
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonDrivers, WithoutWorkersALoopCanBeDebugged) {
  Process& driver = drive("debugged");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(contains(driver.out(), "(Pdb) ")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), R"(metrics {"loss": 0.5})")) << driver.out();
}

TEST_F(PythonDrivers, ALoopIsShippedWithItsFile) {
  for (const char* mode : {"shipped", "shipped-by-override"}) {
    std::filesystem::remove_all(cluster.run_dir("job"));
    Process& driver = drive(mode);
    EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
    EXPECT_TRUE(contains(driver.out(), R"({"files":["trainrun_driver.py"],"in":"code"})"))
        << driver.out() << driver.err();
    EXPECT_TRUE(nothing_left(cluster));
  }
}

TEST_F(PythonDrivers, ALoopOfAClassInANotebookIsNamed) {
  Process& driver = drive("notebook");
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_TRUE(contains(driver.out(), "is not at the top level of a file")) << driver.out();
}

TEST_F(PythonDrivers, ARunThatAnotherTrainRunTakesOverIsAnErrorOfTheCluster) {
  Process& driver = drive(
      "taken", job("mode: epochs, epochs: 4, hold_at: [2], hold_file: " + cluster.path("go")));
  ASSERT_TRUE(wait_until([&] {
    return contains(read_file(cluster.run_dir("job") + "/metrics.jsonl"), "\"rank\":0,");
  })) << driver.err();
  Process& taker = cluster.train_run({"resume", "--force", cluster.run_dir("job")});
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_TRUE(contains(driver.out(), "Error replaced")) << driver.out() << driver.err();
  cluster.write("go-0-2", "");
  EXPECT_EQ(taker.wait(), 0) << taker.out() << taker.err();
}

TEST_F(PythonDrivers, TheDriverDecidesWhatTheLoopDoes) {
  Process& driver = drive("call");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  for (const char* line :
       {R"(add {"0": {"rank": 0, "total": 0}, "1": {"rank": 1, "total": 0}})",
        R"(add {"0": {"rank": 0, "total": 3}, "1": {"rank": 1, "total": 3}})",
        "shape {1: [2, 3]}\n",
        ("CallFailed call of fail: rank 0: KeyError: 'layer' (and 1 more ranks) {0: \"KeyError: "
         "'layer'\", 1: \"KeyError: 'layer'\"}\n"),
        "nan call of add: the argument holds a number that JSON lacks, NaN or an infinity\n",
        "refused call of no name: a call has the 'name' of a function",
        R"(result succeeded code 0 metrics {"total": 3})"})
    EXPECT_TRUE(contains(driver.out(), line)) << line << "\n" << driver.out() << driver.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonDrivers, ItsExceptionIsThatOfTheRank) {
  Process& driver = drive("failing");
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_EQ(told(driver, "first rank 1 on ").size(), 1u) << "and it is raised again";
  EXPECT_TRUE(contains(driver.out(), "WorkerGroupError rank 1 on ")) << driver.out();
  EXPECT_TRUE(contains(driver.out(),
                       "\n  rank 1: exited 1 ValueError the learning rate is 0\nresult failed"))
      << driver.out();
}

TEST_F(PythonDrivers, ALoopThatWorkersCannotImportTravelsByCloudpickle) {
  if (clients_python().empty()) GTEST_SKIP() << "Optuna and cloudpickle are not installed";
  Process& driver = drive("closure", "", clients_python());
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_EQ(told(driver, "result ").size(), 1u) << driver.out();
  EXPECT_TRUE(contains(driver.out(), R"(metrics {"epoch": 7} )")) << driver.out();
}

TEST_F(PythonDrivers, ALoopThatCannotBeCalledIsNamed) {
  Process& two = drive("two");
  EXPECT_EQ(two.wait(), 0) << two.err();
  EXPECT_EQ(two.out(),
            "ValueError the loop drive.<locals>.<lambda> takes 2 parameters; it may take "
            "train_loop_config, or nothing\n");
  // As if cloudpickle were not installed.
  cluster.write("cloudpickle.py", "raise ImportError\n");
  Process& driver = cluster.start(
      {"python3", TRAIN_SOURCE_DIR "/tests/e2e/programs/trainrun_driver.py", "closure"},
      {.env = {{"PYTHONPATH", cluster.dir() + ":" TRAIN_SOURCE_DIR "/sdk/python"},
               {"PYTHONDONTWRITEBYTECODE", "1"},
               {"RUNS", cluster.storage()}},
       .prefix = {},
       .cwd = ""});
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_EQ(driver.out(),
            "Failure the loop drive.<locals>.<lambda> is not at the top level of a file, so that "
            "workers cannot import it: move it there, or pip install cloudpickle\n");
}

TEST_F(PythonDrivers, ArgumentsOfRayTrainAreRefusedByName) {
  Process& driver = drive("arguments");
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_EQ(driver.out(),
            "Trainer() does not take 'preprocessor': Ray Train has removed it; write "
            "datasets={NAME: {'preprocessors': ...}}\n"
            "Trainer() does not take 'torch_config': write backend_config={'collectives': ..., "
            "'timeout': ...}\n"
            "Trainer() got an unexpected keyword argument 'fly'\n");
}

TEST_F(PythonDrivers, CallbacksAreToldInOrderAlsoOfAFailure) {
  Process& driver = drive(
      "callbacks", job("mode: epochs, epochs: 4, die_rank: 1, die_epoch: 2, die_after_file: " +
                           cluster.run_dir("job") + "/checkpoints/checkpoint_000002/.manifest.json",
                       "  failure_config: {max_failures: 1}\n"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_EQ(told(driver, "handle "), (Words{"handle round 0.1 ordinal 1 checkpoint 0 0",
                                            "handle round 0.2 ordinal 2 checkpoint 1 1",
                                            "handle round 1.1 ordinal 3 checkpoint 2 2",
                                            "handle round 1.2 ordinal 4 checkpoint 3 3"}));
  EXPECT_EQ(told(driver, "after "),
            (Words{R"(after 0.1 {"epoch": 0})", R"(after 0.2 {"epoch": 1})",
                   R"(after 1.1 {"epoch": 2})", R"(after 1.2 {"epoch": 3})"}));
  Words order;
  for (const std::string& line : told(driver, ""))
    for (const char* begin : {"start job", "after 0.2", "exception in attempt 0: rank 1 ",
                              "  rank 1: killed None SIGKILL", "handle round 1.1", "after 1.2",
                              "finish None", "result succeeded"})
      if (line.starts_with(begin)) order.emplace_back(begin);
  EXPECT_EQ(order, (Words{"start job", "after 0.2", "exception in attempt 0: rank 1 ",
                          "  rank 1: killed None SIGKILL", "handle round 1.1", "after 1.2",
                          "finish None", "result succeeded"}))
      << driver.out();
}

TEST_F(PythonDrivers, ACallbackThatRaisesIsNamed) {
  Process& driver = drive("throwing", job("mode: epochs, epochs: 3"));
  EXPECT_EQ(driver.wait(), 0) << driver.out();
  EXPECT_TRUE(contains(
      driver.err(), "trainrun: warning: after_report of Printer raised RuntimeError: I give up\n"))
      << driver.err();
  EXPECT_EQ(told(driver, "handle ").size(), 3u);
  EXPECT_EQ(told(driver, "finish None").size(), 1u);
}

TEST_F(PythonDrivers, OverridesLieOverTheFile) {
  Process& driver = drive("set", job("mode: epochs, epochs: 5, checkpoint_every: 0"));
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_EQ(driver.out(),
            R"(result succeeded code 0 metrics {"attempt": 0, "epoch": 0, "loss": 1.0} returned )"
            "null checkpoints 0 newest none\n")
      << "and the output of train-run is hidden";
}

TEST_F(PythonDrivers, RoundsComeWhileTheRunGoesOn) {
  Process& driver = drive("iterate", job("mode: epochs, epochs: 3, checkpoint_every: 0"));
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_EQ(told(driver, "round "), (Words{"round 0.1 ordinal 1 0 0", "round 0.2 ordinal 2 1 1",
                                           "round 0.3 ordinal 3 2 2"}));
  EXPECT_EQ(told(driver, "invalid_argument this Trainer has run its job already").size(), 1u)
      << driver.out();
}

TEST_F(PythonDrivers, APaceOfOneIsLockStep) {
  Process& driver =
      drive("pace", job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_EQ(told(driver, "round "),
            (Words{"round 0.1 ordinal 1 0 0: 2 reports", "round 0.2 ordinal 2 1 1: 4 reports",
                   "round 0.3 ordinal 3 2 2: 6 reports"}));
  EXPECT_TRUE(contains(driver.out(), R"(newest {"epoch": -1, "on_stop": true})")) << driver.out();
}

TEST_F(PythonDrivers, RoundsThatAreDoneAgainSaySo) {
  Process& driver =
      drive("iterate", job("mode: epochs, epochs: 3, checkpoint_every: 0, die_rank: 0, "
                           "die_epoch: 2, die_after_file: " +
                               cluster.path("die"),
                           "  failure_config: {max_failures: 1}\n"));
  ASSERT_TRUE(wait_until([&] { return told(driver, "round ").size() == 2; })) << driver.err();
  cluster.write("die", "");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_EQ(
      told(driver, "round "),
      (Words{"round 0.1 ordinal 1 0 0", "round 0.2 ordinal 2 1 1", "round 1.1 ordinal 1 redone 0 0",
             "round 1.2 ordinal 2 redone 1 1", "round 1.3 ordinal 3 2 2"}));
}

TEST_F(PythonDrivers, UnequalNumbersOfReportsAreNamed) {
  Process& driver = drive("iterate", job("mode: uneven"));
  EXPECT_EQ(driver.wait(), 0) << driver.err();
  EXPECT_TRUE(contains(driver.out(),
                       "Failure the ranks have made unequal numbers of reports: rank 0 0, rank 1 "
                       "3; rounds need each rank to report equally often\n"))
      << driver.out();
}

TEST_F(PythonDrivers, ADriverStopsTheRunAndItsCheckpointIsKept) {
  Process& driver = drive(
      "stop", job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true, ahead: 100"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_EQ(told(driver, "no result yet").size(), 1u);
  EXPECT_TRUE(contains(driver.out(), R"(newest {"epoch": -1, "on_stop": true})")) << driver.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonDrivers, ADriverThatFailsStopsTheRunAndTellsItsCallbacks) {
  Process& driver =
      drive("leave-loop",
            job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true, ahead: 100"));
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_EQ(told(driver, "finish "), Words{"finish KeyError('a mistake of the driver')"});
  EXPECT_EQ(cluster.exit_json("job").at("code").to_number<int>(), 0);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonDrivers, TheRunOfADriverThatIsKilledStopsInGoodOrder) {
  Process& driver =
      drive("stall",
            job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true, ahead: 100"));
  ASSERT_TRUE(wait_until([&] { return !told(driver, "round ").empty(); })) << driver.err();
  driver.signal(SIGKILL);
  driver.wait();

  ASSERT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.exit_json("job").at("code").to_number<int>(), 75);
  EXPECT_EQ(cluster.checkpoints("job").size(), 1u);
}

// With the real Optuna.
class OptunaStudies : public PythonDrivers {
 protected:
  void SetUp() override {
    if (clients_python().empty()) GTEST_SKIP() << "Optuna is not installed";
  }
  Process& search(const std::string& mode, const std::string& job) {
    return drive(mode, job, clients_python(), "optuna_driver.py");
  }
  /// As job(), but the run is named by the trial.
  std::string trial(const std::string& config) const {
    return cluster.write(
        "trial.yaml", "command: [" + program("sdk_worker") +
                          "]\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n" +
                          "train_loop_config: {" + config +
                          "}\nrun_config: {storage_path: " + cluster.storage() + "}\n");
  }
};

TEST_F(OptunaStudies, EachTrialIsARunThatMayBePruned) {
  Process& driver = search("search", trial("mode: epochs, checkpoint_every: 0, ahead: 100"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_EQ(driver.out(),
            "0 COMPLETE my-study-1-trial-0 succeeded value True steps all checkpoint False\n"
            "epochs True frame True\n"
            "1 PRUNED my-study-1-trial-1 succeeded value True steps all checkpoint True\n"
            "2 COMPLETE my-study-1-trial-2 succeeded value True steps all checkpoint False\n"
            "3 PRUNED my-study-1-trial-3 succeeded value True steps all checkpoint True\n");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(OptunaStudies, WhatIsNotReportedIsNamed) {
  Process& metric = search("metric", trial("mode: epochs, epochs: 2, checkpoint_every: 0"));
  EXPECT_EQ(metric.wait(), 0) << metric.err();
  EXPECT_EQ(metric.out(),
            "Failure rank 0 has reported no number 'accuracy': it reports attempt, epoch, loss\n"
            "['FAIL']\n");
  Process& step = search("step", trial("mode: epochs, epochs: 2, checkpoint_every: 0"));
  EXPECT_EQ(step.wait(), 0) << step.err();
  EXPECT_EQ(step.out().substr(0, step.out().find('\n')),
            "Failure rank 0's 'loss' is to count steps, and is 0.5");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(OptunaStudies, ProposesTheValuesOfASweep) {
  const std::string storage = "sqlite:///" + cluster.path("study.db");
  const std::string spec = cluster.job(
      "job", "command: [" + program("sdk_worker") +
                 "]\nscaling_config: {resources_per_worker: {CPU: 0}}\n"
                 "train_loop_config: {mode: trial, epochs: 3, hold_above: 0.5, hold_file: " +
                 cluster.path("go") +
                 "}\nsweep:\n  metric: loss\n  time_attribute: epoch\n  num_trials: 4\n"
                 "  max_concurrent_trials: 1\n  points: [{x: 0.25}, {x: 0.75}, {x: 0.125}]\n"
                 "  parameters: {x: {uniform: [0, 1]}, more: {choice: [a, [1, 2]]}}\n"
                 "  search: {command: [" +
                 clients_python() + ", -m, trainrun.optuna, --storage, \"" + storage +
                 "\", --sampler, random, --pruner, none]}\n");
  const StartOptions with_package{
      .env = {{"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"}, {"PYTHONDONTWRITEBYTECODE", "1"}},
      .prefix = {},
      .cwd = ""};
  Process& sweep = cluster.train_run({"sweep", spec}, with_package);
  const std::string second = cluster.run_dir("job") + "/trials/0001/metrics.jsonl";
  ASSERT_TRUE(wait_until([&] { return exists(second) && !read_file(second).empty(); }))
      << sweep.out() << sweep.err() << read_file(cluster.run_dir("job") + "/searcher.log");
  sweep.signal(SIGKILL);
  EXPECT_EQ(sweep.wait(), 137);
  cluster.write("go", "");
  Process& again = cluster.train_run({"resume", cluster.run_dir("job")}, with_package);
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err()
                             << read_file(cluster.run_dir("job") + "/searcher.log");
  EXPECT_TRUE(contains(again.out(), "4 of 4 trials: 4 finished\n")) << again.out();
  EXPECT_TRUE(nothing_left(cluster));

  // The study knows each trial once, and tried each point once.
  Process& study = cluster.start(
      {clients_python(), "-c",
       "import optuna, sys\n"
       "for one in optuna.load_study(storage=sys.argv[1], study_name=sys.argv[2]).trials:\n"
       "    x = one.params['x']\n"
       "    print(one.user_attrs['trainrun_trial'], one.state.name,\n"
       "          x if one.number < 3 else 0 <= x <= 1 and x != 0.125, abs(one.value - x - 1 / 3) "
       "< 1e-9)\n",
       storage, cluster.run_dir("job")});
  EXPECT_EQ(study.wait(), 0) << study.err();
  EXPECT_EQ(
      study.out(),
      "0 COMPLETE 0.25 True\n1 COMPLETE 0.75 True\n2 COMPLETE 0.125 True\n3 COMPLETE True True\n");
}

// With the real Ray Tune, which kills the processes of trials that its scheduler stops.
TEST_F(PythonDrivers, TrialsOfRayTuneLeaveNothingBehind) {
  if (ray_python().empty()) GTEST_SKIP() << "Ray is not installed: make bench installs it";
  Process& driver = drive(cluster.storage(), "", ray_python(), "tune_driver.py");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_EQ(told(driver, "errors "), Words{"errors 0"});
  EXPECT_EQ(told(driver, "0.0 "), Words{"0.0 all epochs True"});
  EXPECT_EQ(told(driver, "1.0 "), Words{"1.0 stopped True"});
  EXPECT_EQ(told(driver, "2.0 "), Words{"2.0 stopped True"});
  EXPECT_EQ(told(driver, "best "), Words{"best 0.0"});
  EXPECT_TRUE(wait_until([&] {
    return cluster.workers().empty() && cluster.processes("traind").empty() &&
           cluster.processes("train-run").empty();
  }));
}

}  // namespace
}  // namespace train::e2e
