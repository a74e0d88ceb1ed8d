// num_workers: 0: the program runs alone, in place of train-run.
#include <gtest/gtest.h>
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
  EXPECT_TRUE(contains(run.err(),
                       "train-run: num_workers is 0: job runs alone, in place of "
                       "train-run; its folder: " +
                           cluster.run_dir("job-solo") + "\n"))
      << run.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Solo, ItHasThePidOfTrainRun) {
  Cluster cluster;
  Process& run = cluster.train_run({shell(cluster, "echo $$")});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.out(), std::to_string(run.pid()) + "\n");
}

TEST(Solo, ReportsAndCheckpointsGoToTheRunsFolderAndALaterStartRestores) {
  Cluster cluster;
  const std::string job = training(cluster, "mode: epochs, epochs: 2");

  ASSERT_EQ(cluster.run({job}), 0);
  ASSERT_EQ(cluster.run({job, "--set", "train_loop_config.epochs=4"}), 0);

  EXPECT_EQ(cluster.checkpoints("job-solo").size(), 4u);
  std::vector<std::string> reports;
  for (const auto& line : cluster.metrics("job-solo")) {
    EXPECT_EQ(text_of(line, "rank"), "0");
    reports.push_back(text_of(line, "attempt") + "/" + text_of(line, "report_seq") + "/" +
                      text_of(line.at("metrics").as_object(), "epoch"));
  }
  EXPECT_EQ(reports, (std::vector<std::string>{"0/1/0", "0/2/1", "1/1/2", "1/2/3"}));
}

TEST(Solo, TakesNoFolderOfARunAndGivesNoneToARun) {
  Cluster cluster;
  const std::string job = training(cluster, "mode: epochs, epochs: 1");
  ASSERT_EQ(cluster.run({job, "--num-workers", "1", "--name", "a-solo"}), 0);
  ASSERT_EQ(cluster.run({job, "--name", "b"}), 0);

  Process& alone = cluster.train_run({job, "--name", "a"});
  EXPECT_EQ(alone.wait(), 73);
  EXPECT_EQ(alone.err(), "train-run: error: " + cluster.run_dir("a-solo") +
                             " is not the folder of a program that ran alone\n"
                             "train-run: choose another name: --name, or run_config.name\n");
  Process& run = cluster.train_run({job, "--num-workers", "1", "--name", "b-solo"});
  EXPECT_EQ(run.wait(), 73);
  EXPECT_TRUE(
      contains(run.err(), cluster.run_dir("b-solo") + " is the folder of a program that ran alone"))
      << run.err();
  EXPECT_EQ(cluster.metrics("a-solo").size(), 1u);
  EXPECT_EQ(cluster.metrics("b-solo").size(), 1u);
}

TEST(Solo, TakesNoFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  Cluster cluster;
  const std::string job = training(cluster, "mode: epochs, epochs: 1");
  ASSERT_EQ(cluster.run({job}), 0);
  ASSERT_EQ(::chown(cluster.run_dir("job-solo").c_str(), 4321, 4321), 0);

  Process& run = cluster.train_run({job});

  EXPECT_EQ(run.wait(), 73);
  EXPECT_TRUE(contains(run.err(),
                       "/job-solo is not the folder of a program that ran alone for "
                       "this user\n"))
      << run.err();
  EXPECT_EQ(cluster.metrics("job-solo").size(), 1u);
}

TEST(Solo, SaysWhyACommandCannotRun) {
  Cluster cluster;
  Process& run = cluster.train_run({cluster.job("job", "command: [no-such-program]" + kAlone)});

  EXPECT_EQ(run.wait(), 127);
  EXPECT_TRUE(contains(run.err(), "the command 'no-such-program' cannot be executed in "))
      << run.err();
}

TEST(Solo, RefusesWhatNeedsTrainRun) {
  Cluster cluster;
  const std::string job = shell(cluster, "true");
  const auto refusal = [&](std::vector<std::string> words, int code) {
    Process& run = cluster.train_run(words);
    EXPECT_EQ(run.wait(), code) << run.err();
    return run.err();
  };

  EXPECT_TRUE(contains(refusal({job, "--detach"}, 2), "--detach and num_workers: 0 exclude each"));
  EXPECT_TRUE(contains(refusal({job, "--set", "backend=horovod"}, 78),
                       "backend needs train-run, and with num_workers: 0 the program runs"));
  EXPECT_TRUE(contains(refusal({job, "--num-workers", "0:2"}, 78),
                       "scaling_config.num_workers.min is 0, less than 1"));
  EXPECT_TRUE(contains(refusal({"k8s", job, "--image", "train:1"}, 2), "num_workers is 0"));
  const std::string sweep = cluster.job("s",
                                        "command: [\"true\"]\nsweep: {metric: loss, num_trials: 2, "
                                        "parameters: {lr: {log_uniform: [0.1, 0.2]}}}" +
                                            kAlone);
  EXPECT_TRUE(contains(refusal({"sweep", sweep}, 78), "a sweep needs train-run for its trials"));
}

}  // namespace
}  // namespace train::e2e
