// num_workers: 0: the program runs alone, in place of train-run.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

const std::string kAlone = "\nscaling_config: {num_workers: 0}";

std::string shell(const Cluster& cluster, const std::string& script) {
  return cluster.job("job", "command: [sh, -c, '" + script + "']\nenv: {COLOUR: red}" + kAlone);
}

std::string training(const Cluster& cluster, const std::string& config) {
  return cluster.job("job", "command: [" + program("sdk_worker") + "]\ntrain_loop_config: {" +
                                config + "}" + kAlone);
}

/// Return "attempt/report_seq/epoch" of each report that an attempt of the program has kept.
std::vector<std::string> reports(const Cluster& cluster, const std::string& folder, int attempt) {
  std::vector<std::string> found;
  const std::string path = "/attempts/00" + std::to_string(attempt) + "/metrics.jsonl";
  for (const auto& line : cluster.json_lines(cluster.read(cluster.run_dir(folder) + path))) {
    EXPECT_EQ(text_of(line, "rank"), "0");
    found.push_back(text_of(line, "attempt") + "/" + text_of(line, "report_seq") + "/" +
                    text_of(line.at("metrics").as_object(), "epoch"));
  }
  return found;
}

using Texts = std::vector<std::string>;

TEST(Solo, TheProgramTakesThePlaceOfTrainRun) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {shell(cluster,
             "read line; echo pid $$ $line $COLOUR $RANK/$WORLD_SIZE socket=$TRAINRUN_SOCKET; "
             "test $MASTER_PORT -gt 0 && exit 7")},
      {.env = {{"TRAINRUN_SOCKET", "/of/an/outer/run"}},
       .prefix = {"sh", "-c", "echo typed | (exec \"$@\")", "sh"},
       .cwd = ""});

  EXPECT_EQ(run.wait(), 7) << run.err();
  EXPECT_TRUE(contains(run.out(), " typed red 0/1 socket=\n")) << run.out();
  EXPECT_EQ(run.err(),
            "train-run: num_workers is 0: job runs alone, in place of train-run; its folder: " +
                cluster.run_dir("_solo-job") + "\n");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Solo, ItHasThePidOfTrainRun) {
  Cluster cluster;
  Process& run = cluster.train_run({shell(cluster, "echo $$")});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.out(), std::to_string(run.pid()) + "\n");
}

TEST(Solo, ReportsAndCheckpointsGoToItsFolderAndALaterStartRestores) {
  Cluster cluster;
  const std::string job = training(cluster, "mode: epochs, epochs: 2");

  ASSERT_EQ(cluster.run({job, "--set", "run_config.umask=\"022\""}), 0);
  ASSERT_EQ(cluster.run({job, "--set", "train_loop_config.epochs=4"}), 0);

  EXPECT_EQ(cluster.checkpoints("_solo-job").size(), 4u);
  EXPECT_EQ(reports(cluster, "_solo-job", 0), (Texts{"0/1/0", "0/2/1"}));
  EXPECT_EQ(reports(cluster, "_solo-job", 1), (Texts{"1/1/2", "1/2/3"}));
  struct stat context {};
  ASSERT_EQ(::stat((cluster.run_dir("_solo-job") + "/context.json").c_str(), &context), 0);
  EXPECT_EQ(context.st_mode & 0777, 0600u);  // only its owner ever reads the job
}

TEST(Solo, WhatADebuggerStartsTwiceHasTwoAttempts) {
  Cluster cluster;
  const std::string worker = program("sdk_worker");
  const std::string job = cluster.job("job", "command: [sh, -c, '" + worker + "; " + worker +
                                                 "']\ntrain_loop_config: {mode: metrics}" + kAlone);

  ASSERT_EQ(cluster.run({job}), 0);

  EXPECT_EQ(reports(cluster, "_solo-job", 0), (Texts{"0/1/0", "0/2/1"}));
  EXPECT_EQ(reports(cluster, "_solo-job", 1), (Texts{"1/1/0", "1/2/1"}));
}

TEST(Solo, ADefaultNameLosesItsTimeSoThatTheProgramRestores) {
  Cluster cluster;
  const Texts words{"--num-workers",   "0",  "--storage",
                    cluster.storage(), "--", program("sdk_worker")};
  const auto start = [&](int epochs) {
    Texts all{"--set", "train_loop_config.mode=epochs", "--set",
              "train_loop_config.epochs=" + std::to_string(epochs)};
    all.insert(all.end(), words.begin(), words.end());
    return cluster.run(all);
  };

  ASSERT_EQ(start(1), 0);
  ASSERT_EQ(start(2), 0);

  EXPECT_EQ(reports(cluster, "_solo-sdk_worker", 1), (Texts{"1/1/1"}));
}

TEST(Solo, OfOneNameOnlyOneRunsAtATime) {
  Cluster cluster;
  const std::string job = shell(cluster, "echo here; read line");
  const StartOptions waiting{
      .env = {}, .prefix = {"sh", "-c", "sleep 1000 | (exec \"$@\")", "sh"}, .cwd = ""};
  Process& first = cluster.train_run({job}, waiting);
  ASSERT_TRUE(wait_until([&] { return contains(first.out(), "here"); })) << first.err();

  Process& second = cluster.train_run({job});

  EXPECT_EQ(second.wait(), 73);
  EXPECT_EQ(second.err(), "train-run: error: another program runs alone in " +
                              cluster.run_dir("_solo-job") +
                              "\n"
                              "train-run: end it, or choose another name: --name, or "
                              "run_config.name\n");
}

TEST(Solo, TakesNoFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  Cluster cluster;
  const std::string job = training(cluster, "mode: epochs, epochs: 1");
  ASSERT_EQ(cluster.run({job}), 0);
  ASSERT_EQ(::chown(cluster.run_dir("_solo-job").c_str(), 4321, 4321), 0);

  Process& run = cluster.train_run({job});

  EXPECT_EQ(run.wait(), 77);
  EXPECT_TRUE(contains(run.err(), "the program job belongs to uid 4321, not to uid 0"))
      << run.err();
}

/// Programs that run alone for a driver.
class SoloDrivers : public testing::Test {
 protected:
  Process& drive(const std::string& mode, const std::string& job, StartOptions options = {}) {
    options.env["TRAINRUN_PROGRAM"] = built("train-run");
    return cluster.start({program("driver"), mode, job}, options);
  }
  Cluster cluster;
};

TEST_F(SoloDrivers, FitReturnsTheResult) {
  Process& driver = drive("fit", training(cluster, "mode: epochs, epochs: 3, checkpoint_every: 2"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(contains(driver.out(), "result succeeded code 0 metrics {\"attempt\":0,\"epoch\":2,"))
      << driver.out();
  EXPECT_TRUE(contains(driver.out(), R"( checkpoints 1 newest {"epoch":1})")) << driver.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(SoloDrivers, ALaterRunGoesOnFromTheCheckpoint) {
  ASSERT_EQ(drive("fit", training(cluster, "mode: epochs, epochs: 2")).wait(), 0);
  Process& driver = drive("iterate", training(cluster, "mode: epochs, epochs: 4"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  for (const char* round :  // the program prints between them
       {"round 1.1 ordinal 1 checkpoint 2\n", "round 1.2 ordinal 2 checkpoint 3\n"})
    EXPECT_TRUE(contains(driver.out(), round)) << driver.out();
  EXPECT_EQ(
      cluster.json_lines(cluster.read(cluster.run_dir("_solo-job") + "/metrics.jsonl")).size(), 4u);
}

TEST_F(SoloDrivers, CallbacksAreToldInOrder) {
  Process& driver =
      drive("callbacks", training(cluster, "mode: epochs, epochs: 2, checkpoint_every: 2"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  const std::string out = driver.out();
  std::size_t at = 0;
  for (const char* line :
       {"start _solo-job\n", "handle round 0.1 ordinal 1 0\n", "after 0.1 none\n",
        "handle round 0.2 ordinal 2 checkpoint 1\n", "after 0.2 {\"epoch\":1}\n", "finish \n"}) {
    const std::size_t found = out.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << "\n" << out;
    at = found;
  }
}

TEST_F(SoloDrivers, AFailureHasTheExceptionsText) {
  Process& driver = drive("fit", training(cluster, "mode: fail, fail_rank: 0"));
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_TRUE(contains(driver.out(), "WorkerGroupError rank 0 on ")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "\n  rank 0: exited 1  the learning rate")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "result failed code 1 ")) << driver.out();
}

TEST_F(SoloDrivers, AStopIsInGoodOrder) {
  Process& driver = drive("stop", training(cluster,
                                           "mode: epochs, epochs: 1000000, "
                                           "checkpoint_every: 0, on_stop: true"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(contains(driver.out(), "result succeeded code 0")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), R"(newest {"epoch":-1,"on_stop":true})")) << driver.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(SoloDrivers, AProgramThatDoesNotReportIsEnded) {
  const std::string job =
      cluster.job("job", "command: [sh, -c, 'echo here; sleep 1000; true']" + kAlone,
                  "  failure_config: {stop_grace: 1s}\n");
  Process& driver = drive("fit", job);
  ASSERT_TRUE(wait_until([&] { return contains(driver.out(), "here"); })) << driver.err();
  for (const Seen& seen : cluster.processes("--driver-fd")) send_signal(seen.pid, SIGTERM);
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_TRUE(contains(driver.out(), "PreemptionError the run was stopped: SIGTERM"))
      << driver.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(SoloDrivers, TheProgramOfADriverThatIsKilledStopsInGoodOrder) {
  Process& driver = drive("stall", training(cluster,
                                            "mode: epochs, epochs: 1000000, "
                                            "checkpoint_every: 0, on_stop: true"));
  ASSERT_TRUE(wait_until([&] { return contains(driver.out(), "round "); })) << driver.err();
  driver.signal(SIGKILL);
  driver.wait();
  ASSERT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.exit_json("_solo-job").at("code").to_number<int>(), 75);
  EXPECT_EQ(cluster.checkpoints("_solo-job").size(), 1u);
}

TEST_F(SoloDrivers, WhatAProgramSaysAfterItsDriversDeathDoesNotEndIt) {
  const std::string job = cluster.job(
      "job",
      "command: [sh, -c, 'while printf here%02000d 0 >&2; do sleep 0.002; done; exit 9']" + kAlone,
      "  failure_config: {stop_grace: 1s}\n");
  Process& driver = drive("fit", job);
  ASSERT_TRUE(wait_until([&] { return contains(driver.err(), "here"); })) << driver.err();
  driver.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the pipe to it becomes full
  driver.signal(SIGKILL);
  driver.wait();
  ASSERT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.exit_json("_solo-job").at("code").to_number<int>(), 75);
}

TEST_F(SoloDrivers, EachProcessThatReportsIsFollowedToItsEnd) {
  const std::string worker = program("sdk_worker"), finish = cluster.path("finish");
  Process& driver = drive(
      "iterate", cluster.job("job", "command: [sh, -c, '" + worker + " & sleep 0.3; " + worker +
                                        " & sleep 0.5; touch " + finish +
                                        "; wait']\ntrain_loop_config: {mode: asked, finish_file: " +
                                        finish + "}" + kAlone));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  const std::string out = driver.out();
  for (const int attempt : {0, 1}) {
    const std::string begin = "round " + std::to_string(attempt) + ".";
    std::size_t rounds = 0;
    for (std::size_t at = 0; (at = out.find(begin, at)) != std::string::npos; ++at) ++rounds;
    EXPECT_GT(rounds, 0u);
    EXPECT_EQ(rounds, reports(cluster, "_solo-job", attempt).size()) << "attempt " << attempt;
  }
}

TEST_F(SoloDrivers, ATermForTheWholeGroupIsAStop) {
  const std::string job =
      cluster.job("job", "command: [sh, -c, 'echo here; exec sleep 1000']" + kAlone);
  Process& driver = drive("fit", job);
  ASSERT_TRUE(wait_until([&] { return contains(driver.out(), "here"); })) << driver.err();
  for (const Seen& seen : cluster.processes("--driver-fd")) send_signal(seen.pid, SIGTERM);
  for (const Seen& seen : cluster.processes("sleep 1000")) send_signal(seen.pid, SIGTERM);
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_TRUE(contains(driver.out(), "PreemptionError the run was stopped: SIGTERM"))
      << driver.out();
}

TEST_F(SoloDrivers, TheProgramDiesWithTrainRun) {
  Process& driver = drive("stall", training(cluster,
                                            "mode: epochs, epochs: 1000000, "
                                            "checkpoint_every: 0"));
  ASSERT_TRUE(wait_until([&] { return contains(driver.out(), "round "); })) << driver.err();
  for (const Seen& seen : cluster.processes("--driver-fd")) send_signal(seen.pid, SIGKILL);
  driver.signal(SIGKILL);
  driver.wait();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(SoloDrivers, TheProgramHasTheTerminalsInput) {
  Process& driver =
      drive("fit", shell(cluster, "read line; echo got $line; exit 3"),
            {.env = {}, .prefix = {"sh", "-c", "echo typed | (exec \"$@\")", "sh"}, .cwd = ""});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_TRUE(contains(driver.out(), "got typed\n")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "result failed code 3 ")) << driver.out();
}

TEST_F(SoloDrivers, AProgramThatIsItsOwnWorkersRunsAlone) {
  Process& driver =
      cluster.start({program("driver"), "self"}, {.env = {{"TRAINRUN_PROGRAM", built("train-run")},
                                                          {"RUNS", cluster.storage()},
                                                          {"WORKERS", "0"}},
                                                  .prefix = {},
                                                  .cwd = ""});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(contains(driver.out(), R"(metrics {"epoch":1} returned "trained" checkpoints 0)"))
      << driver.out();
}

TEST_F(SoloDrivers, WhatNeedsWorkersIsNamed) {
  Process& missing = drive("fit", cluster.job("job", "command: [./nothing]" + kAlone));
  EXPECT_EQ(missing.wait(), 1);
  EXPECT_TRUE(contains(missing.out(), "WorkerGroupError ")) << missing.out() << missing.err();
  EXPECT_TRUE(contains(missing.out(), "could not be started: ./nothing: No such file or directory"))
      << missing.out() << missing.err();
  Process& paced = drive("pace", training(cluster, "mode: metrics"));
  EXPECT_EQ(paced.wait(), 1);
  EXPECT_TRUE(contains(paced.out(),
                       "SpecError --pace and num_workers: 0 exclude each other: the "
                       "program waits for nobody"))
      << paced.out();
  Process& called = drive("call", training(cluster, "mode: metrics"));
  EXPECT_EQ(called.wait(), 1);
  EXPECT_TRUE(contains(
      called.out(),
      "CallFailed call of add: with num_workers: 0 nobody can call the program's functions"))
      << called.out() << called.err();
}

TEST(Solo, ShowsWhatWouldRun) {
  Cluster cluster;
  Process& run = cluster.train_run({shell(cluster, "true"), "--dry-run"});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "folder:    " + cluster.run_dir("_solo-job") + "\n"))
      << run.out();
  EXPECT_TRUE(contains(run.out(), "\n  COLOUR=red\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "\n  MASTER_PORT=(chosen at start)\n")) << run.out();
  EXPECT_EQ(::access(cluster.run_dir("_solo-job").c_str(), F_OK), -1);
}

TEST(Solo, SaysWhyItCannotRun) {
  Cluster cluster;
  Process& missing =
      cluster.train_run({cluster.job("missing", "command: [no-such-program]" + kAlone)});
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_TRUE(contains(missing.err(), "starting no-such-program: No such file")) << missing.err();

  Process& no_program = cluster.train_run({cluster.job("text", "command: [/]" + kAlone)});
  EXPECT_EQ(no_program.wait(), 126);

  Process& nowhere = cluster.train_run(
      {cluster.job("nowhere", "command: [\"true\"]\nworking_dir: /no/such/folder" + kAlone)});
  EXPECT_EQ(nowhere.wait(), 66);
  EXPECT_TRUE(contains(nowhere.err(), "working_dir /no/such/folder: No such file"))
      << nowhere.err();
}

TEST(Solo, RefusesWhatNeedsTrainRun) {
  Cluster cluster;
  const std::string job = shell(cluster, "true");
  const auto refusal = [&](std::vector<std::string> words, int code) {
    Process& run = cluster.train_run(words);
    EXPECT_EQ(run.wait(), code) << run.err();
    return run.err();
  };

  for (const std::string option :
       {"--detach", "--output=json", "--events=all", "--wait-for-debugger=0"}) {
    EXPECT_TRUE(contains(refusal({job, option}, 2), "num_workers: 0 exclude each other"));
  }
  EXPECT_TRUE(contains(refusal({job, "--set", "backend=horovod"}, 78),
                       "backend needs train-run, and with num_workers: 0 the program runs"));
  EXPECT_TRUE(contains(refusal({job, "--num-workers", "0:2"}, 78),
                       "scaling_config.num_workers.min is 0, less than 1"));
  EXPECT_TRUE(contains(refusal({"k8s", job, "--image", "train:1"}, 2), "num_workers is 0"));
  const std::string sweep = cluster.job("s",
                                        "command: [\"true\"]\nsweep: {metric: loss, num_trials: "
                                        "2, parameters: {lr: {log_uniform: [0.1, 0.2]}}}" +
                                            kAlone);
  EXPECT_TRUE(contains(refusal({"sweep", sweep}, 78), "a sweep needs train-run for its trials"));
}

TEST(Solo, ARunThatHasBegunKeepsItsWorkers) {
  Cluster cluster;
  const std::string job = cluster.job("begun", "command: [\"false\"]");
  ASSERT_EQ(cluster.run({job}), 1);

  Process& run = cluster.train_run(
      {"resume", cluster.run_dir("begun"), "--set", "scaling_config.num_workers=0"});

  EXPECT_EQ(run.wait(), 2);
  EXPECT_TRUE(contains(run.err(), "num_workers is 0, and a run that has begun needs workers"))
      << run.err();
}

}  // namespace
}  // namespace train::e2e
