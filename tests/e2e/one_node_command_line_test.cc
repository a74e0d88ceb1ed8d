// Jobs without a file: train-run -n 4 -- ./train, and words after -- for the command of a spec.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/e2e/said_by.h"

namespace train::e2e {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Two workers that claim no cores, in a run of this name.
Words two_workers(const Cluster& cluster, const std::string& name) {
  return {"-n", "2", "--cpus", "0", "--name", name, "--storage", cluster.storage()};
}

TEST(CommandLine, RunsAProgramWithoutAFile) {
  Cluster cluster;

  Process& run =
      cluster.train_run(two_workers(cluster, "job") + Words{"--", program("plain_worker"), "print",
                                                            "hello ${HOME}", "env", "WORLD_SIZE"});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "1] hello ${HOME}\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "1] WORLD_SIZE=2\n")) << run.out();
  EXPECT_TRUE(contains(cluster.read(cluster.run_dir("job") + "/spec.yaml"), "num_workers: 2\n"));
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(CommandLine, ItsPrintedSpecRunsAlike) {
  Cluster cluster;
  const Words words =
      two_workers(cluster, "job") + Words{"--max-failures",        "-1",    "--print-config", "--",
                                          program("plain_worker"), "print", "'$$ {x: 1}"};
  Process& print = cluster.train_run(words);
  ASSERT_EQ(print.wait(), 0) << print.err();
  cluster.write("printed.yaml", print.out());

  EXPECT_EQ(cluster.run({"validate", "printed.yaml"}), 0);
  Process& run = cluster.train_run({"printed.yaml"});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "1] '$$ {x: 1}\n")) << run.out();
}

TEST(CommandLine, WordsAfterTheDashesFollowTheCommandOfAFile) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [" + program("plain_worker") +
                             ", print, first]\nscaling_config: {resources_per_worker: {CPU: 0}}");

  Process& run = cluster.train_run({"-n", "2", job, "--", "print", "--second"});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "1] --second\n")) << run.out();
}

TEST(CommandLine, AKilledLaunchersRunIsResumed) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run(
      two_workers(cluster, "job") +
      Words{"--", program("plain_worker"), "touch", "up", "wait-for", go, "print", "${after}"});
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("up")); }));
  run.signal(SIGKILL);
  run.wait();
  cluster.write("go", "");

  Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});

  EXPECT_EQ(resumed.wait(), 0) << resumed.err();
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0001/stdout.log"),
            "${after}\n");
}

TEST(CommandLine, ADetachedRunGetsTheSameWords) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Words words = {"--detach", "-n", "2", "--cpus", "0", "--storage", cluster.storage()};
  Process& run = cluster.train_run(
      words + Words{"--", program("plain_worker"), "wait-for", go, "print", "--detach done"});
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  const std::string name = run.out().substr(4, run.out().find(' ', 4) - 4);
  EXPECT_TRUE(name.starts_with("plain_worker-")) << run.out();
  cluster.write("go", "");

  EXPECT_EQ(cluster.run({"attach", cluster.run_dir(name)}), 0);
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.read(cluster.run_dir(name) + "/attempts/000/ranks/0001/stdout.log"),
            "--detach done\n");
}

TEST(CommandLine, MistakesNameTheOption) {
  Cluster cluster;
  cluster.write("shell.yaml", "command: ./train | tee log\n");
  cluster.write("list.yaml", "command: [./train]\n");
  cluster.write("train.py", "print()\n");
  std::string said;
  const auto say = [&](const Words& words) {
    for (const std::string& word : words)
      said += (word.empty() ? "''" : replaced(word, "\xff", "\\xff")) + " ";
    said += "\n" + said_by(cluster, cluster.train_run(words)) + "\n";
  };
  say({"-n", "4"});
  say({"-n", "4", "--"});
  say({"validate", "-n", "4"});
  say({"validate", "-n", "0", "--", "./train"});
  say({"validate", "-n", "four", "--", "./train"});
  say({"validate", "-n", "4:2", "--", "./train"});
  say({"validate", "-n", "{min: 1}", "--", "./train"});
  say({"validate", "--gpus", "0.5", "--", "./train"});
  say({"validate", "--gpus", "all", "--", "./train"});
  say({"validate", "--cpus", "-1", "--memory", "much", "--", "./train"});
  say({"validate", "--max-failures", "-2", "--", "./train"});
  say({"validate", "--name", "../up", "--", "./train"});
  say({"validate", "--name", "../up", "list.yaml"});
  say({"validate", "--storage", "s3://", "--", "./train"});
  say({"validate", "--hosts", "a", "--", "./train"});
  say({"validate", "--set", "backend=mpi", "--set", "nmae=x", "--", "./train"});
  say({"validate", "--", "", "x"});
  say({"validate", "--", "./train", "\xff"});
  say({"validate", "shell.yaml", "--", "--lr", "1"});
  say({"validate", "shell.yaml", "--"});
  say({"validate", "-n", "2:4", "--", "./train", "two\nlines"});
  say({"list.yaml", "./train"});
  say({"train.py", "--epochs", "3"});
  say({built("train-run")});
  expect_golden("job_flags_errors", replaced(said, built("train-run"), "PROGRAM"));
}

}  // namespace
}  // namespace train::e2e
