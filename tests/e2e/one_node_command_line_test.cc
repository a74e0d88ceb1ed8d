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

  EXPECT_TRUE(wait_until([&] { return exists(cluster.run_dir(name) + "/exit.json"); }));
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
  say({"validate", "-n", "-1", "--", "./train"});
  say({"validate", "-n", "four", "--", "./train"});
  say({"validate", "-n", "4:2", "--", "./train"});
  say({"validate", "-n", "{min: 1}", "--", "./train"});
  say({"validate", "--gpus", "1.5", "--", "./train"});
  say({"validate", "--gpus", "all", "--", "./train"});
  say({"validate", "--cpus", "-1", "--memory", "much", "--", "./train"});
  say({"validate", "--max-failures", "-2", "--", "./train"});
  say({"validate", "--name", "../up", "--", "./train"});
  say({"validate", "--name", "../up", "list.yaml"});
  say({"validate", "--storage", "s3://", "--", "./train"});
  say({"validate", "--hosts", "a", "--", "./train"});
  say({"validate", "--set", "backend=spark", "--set", "nmae=x", "--", "./train"});
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

TEST(Init, WritesASpecThatIsValidAndRuns) {
  Cluster cluster;
  cluster.write("train.py", "print()\n");
  const std::vector<std::pair<std::string, Words>> programs{
      {"empty", {}},
      {"python", {"train.py", "--lr", "0.1"}},
      {"executable", {program("plain_worker"), "print", "# a: ${b}"}},
      {"torchrun",
       {"torchrun", "--standalone", "--nproc-per-node", "3", "--max-restarts", "2", "--role",
        "trainer", "train.py", "--lr", "0.1"}}};
  std::string said;
  for (const auto& [name, words] : programs) {
    Process& init =
        cluster.train_run(Words{"init", "-o", name + ".yaml"} + words,
                          {.env = {{"CUDA_VISIBLE_DEVICES", "-1"}}, .prefix = {}, .cwd = ""});
    ASSERT_EQ(init.wait(), 0) << init.err();
    EXPECT_EQ(cluster.run({"validate", name + ".yaml"}), 0) << name;
    said += name + ".yaml:\n" + cluster.read(cluster.path(name + ".yaml")) + "\n";
  }
  expect_golden("init", replaced(said, program(""), "PROGRAMS/"));

  Process& run = cluster.train_run(
      {"executable.yaml", "--storage", cluster.storage(), "--name", "job", "--cpus", "0"});
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "# a: ${b}\n")) << run.out();
}

TEST(Init, FindsAProgramOfThisFolder) {
  Cluster cluster;
  cluster.write("train", "");

  ASSERT_EQ(cluster.run({"init", "train"}), 0);

  EXPECT_TRUE(contains(cluster.read(cluster.path("job.yaml")), "\ncommand: [./train] "));
}

TEST(Init, NeverOverwrites) {
  Cluster cluster;
  cluster.write("job.yaml", "mine");

  Process& init = cluster.train_run({"init", "./train"});

  EXPECT_EQ(init.wait(), 73);
  EXPECT_EQ(init.err(),
            "train-run: error: 'job.yaml' exists, and is not overwritten\ntrain-run: name another "
            "file by -o\n");
  EXPECT_EQ(cluster.read(cluster.path("job.yaml")), "mine");
}

TEST(Init, WhatNoSpecCanHoldIsRefused) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({"init", "./train", "\xff"}), 2);
  EXPECT_EQ(cluster.run({"init", "torchrun", "--nnodes", "2", "train.py"}), 2);
  EXPECT_EQ(cluster.run({"init", "-o", "none/job.yaml"}), 66);

  EXPECT_FALSE(exists(cluster.path("job.yaml")));
}

TEST(CommandLine, AWordThatIsAlmostRightIsSuggested) {
  Cluster cluster;
  cluster.write("job.yaml", "command: [./train]\n");
  std::string said;
  for (const Words& words : std::vector<Words>{{"stauts", "RUN"},
                                               {"validat", "job.yaml"},
                                               {"torchrn", "train.py"},
                                               {"nothing"},
                                               {"--num-worker", "4", "--", "./train"},
                                               {"job.yaml", "--dryrun"},
                                               {"job.yaml", "--epochs", "3"},
                                               {"job.yaml", "--lr=0.1"},
                                               {"job.yaml", "other.yaml"},
                                               {"--epochs", "3"},
                                               {"status", "RUN", "--storage_path", "x"},
                                               {"checkpoint", "lst", "RUN"},
                                               {"checkpoint", "list", "RUN", "--outptu=json"},
                                               {"logs", "RUN", "--zzz"},
                                               {"--versoin"}}) {
    for (const std::string& word : words) said += word + " ";
    said += "\n" + said_by(cluster, cluster.train_run(words)) + "\n";
  }
  expect_golden("did_you_mean", said);
}

}  // namespace
}  // namespace train::e2e
