// Compares what the two programs say with tests/golden/cli/, letter by letter. Run with
// UPDATE_GOLDEN=1 to rewrite the files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/e2e/said_by.h"

namespace train::e2e {
namespace {

std::string two_worker_job(const Cluster& cluster) {
  return cluster.write("job.yaml",
                       "name: demo\n"
                       "command: [" +
                           program("plain_worker") +
                           ", print, hello]\n"
                           "env: {LEVEL: \"3\"}\n"
                           "train_loop_config: {lr: 0.1}\n"
                           "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n"
                           "run_config: {storage_path: " +
                           cluster.storage() + "}\n");
}

TEST(Cli, HelpOfTrainRun) {
  Cluster cluster;
  expect_golden("train_run_help", said_by(cluster, cluster.train_run({"--help"})));
  expect_golden("train_run_k8s_help", said_by(cluster, cluster.train_run({"k8s", "--help"})));
  expect_golden("train_run_run_help", said_by(cluster, cluster.train_run({"run", "--help"})));
}

TEST(Cli, HelpOfTraind) {
  Cluster cluster;
  expect_golden("traind_help", said_by(cluster, cluster.traind({"--help"})));
}

TEST(Cli, AnAmountThatNoNodeCanHaveIsRefused) {
  Cluster cluster;
  for (const std::string amount : {"CPU=nan", "CPU=inf", "GPU=-1", "tape=1e10", "memory=1e30"}) {
    Process& traind = cluster.traind({"--resource", amount});

    EXPECT_EQ(traind.wait(), 64) << amount;
    EXPECT_TRUE(contains(traind.err(), "the amount in '" + amount + "' must be from 0 to "))
        << traind.err();
  }
}

TEST(Cli, NoJob) {
  Cluster cluster;
  expect_golden("no_job", said_by(cluster, cluster.train_run({"run"})));
}

TEST(Cli, NothingAtAll) {
  Cluster cluster;
  expect_golden("nothing", said_by(cluster, cluster.train_run({})));
}

TEST(Cli, AnUnknownOption) {
  Cluster cluster;
  expect_golden("unknown_option",
                said_by(cluster, cluster.train_run({"job.yaml", "--nodes", "3"})));
}

TEST(Cli, AJobThatIsNotThere) {
  Cluster cluster;
  expect_golden("no_such_job", said_by(cluster, cluster.train_run({"job.yaml"})));
}

TEST(Cli, WhatIsTooLargeToStartWorkersWithIsRefusedByName) {
  Cluster cluster;
  const std::string mebibyte(1u << 20, 'x');
  cluster.write("config.yaml",
                "command: [true]\nscaling_config: {num_workers: 1}\n"
                "train_loop_config: {words: \"" +
                    mebibyte + mebibyte + mebibyte + mebibyte + mebibyte + "\"}\n");
  cluster.write("secret", mebibyte);
  const std::string job =
      cluster.job("job",
                  "command: [\"true\"]\nscaling_config: {num_workers: 1}\n"
                  "env: {A: \"file:secret\", B: \"file:secret\", C: \"file:secret\"}\n");

  Process& config = cluster.train_run({"config.yaml"});
  EXPECT_EQ(config.wait(), 78);
  EXPECT_TRUE(contains(config.err(), "config.yaml has more than 1048576 bytes")) << config.err();

  Process& environment = cluster.train_run({job});
  EXPECT_EQ(environment.wait(), 78);
  EXPECT_TRUE(contains(environment.err(), "of them for the environment")) << environment.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Cli, ValidateOfAWrongSpecSaysAllThatIsWrong) {
  Cluster cluster;
  cluster.write("wrong.yaml",
                "name: demo\n"
                "comand: [./train]\n"
                "scaling_config:\n"
                "  num_workers: -1\n"
                "  use_gpu: false\n"
                "  resources_per_worker: {GPU: 1}\n"
                "run_config:\n"
                "  failure_config: {max_failures: many, stop_grace: 30 parsecs}\n");
  expect_golden("validate_wrong", said_by(cluster, cluster.train_run({"validate", "wrong.yaml"})));
}

TEST(Cli, ValidateOfARightSpec) {
  Cluster cluster;
  two_worker_job(cluster);
  expect_golden("validate_right", said_by(cluster, cluster.train_run({"validate", "job.yaml"})));
}

TEST(Cli, MistakesOfAJobForKubernetesAreNamed) {
  Cluster cluster;
  cluster.write("job.yaml",
                "name: My_Run\ncommand: [./train]\nscaling_config: {num_workers: 4}\n"
                "run_config: {storage_path: /usr}\n");
  cluster.write("wrong.yaml", "command: [./train]\nscaling_config: {num_workers: -1}\n");
  cluster.write("base.yaml", "command: [./train]\n");
  cluster.write("extends.yaml", "name: x\nextends: base.yaml\n");
  cluster.write("variable.yaml", "name: x\ncommand: [\"${TRAINRUN_E2E}\"]\n");
  std::string said;
  const auto say = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"env", "TRAINRUN_E2E=here", built("train-run"), "k8s"};
    all.insert(all.end(), words.begin(), words.end());
    for (const std::string& word : words) said += (word.empty() ? "''" : word) + " ";
    said += "\n" + said_by(cluster, cluster.start(all)) + "\n";
  };
  const std::string image = "--image=me/train:1";

  say({});
  say({"job.yaml"});
  say({"none.yaml", image});
  say({"wrong.yaml", image});
  say({"extends.yaml", image});
  say({"variable.yaml", image});
  say({"job.yaml", "--image", ""});
  say({"job.yaml", "--image", "me/Train"});
  say({"job.yaml", image, "--kind", "deployment"});
  say({"job.yaml", image, "--nodes", "0"});
  say({"job.yaml", image, "--nodes", "9223372036854775808"});
  say({"job.yaml", image, "--gpus-per-node", "-1"});
  say({"job.yaml", image, "--uid", "0"});
  say({"job.yaml", image});
  say({"job.yaml", image, "--nodes", "2"});
  say({"job.yaml", image, "--nodes", "2", "--name", "run"});
  say({"job.yaml", image, "--nodes", "2", "--name", "2nd"});
  say({"job.yaml", image, "--nodes", "2", "--name", std::string(62, 'a')});
  say({"job.yaml", image, "--nodes", "2", "--name", "run", "--gpus-per-node", "8"});
  say({"job.yaml", image, "--nodes", "2", "--name", "run", "--namespace", "a.b"});
  say({"job.yaml", image, "--nodes", "2", "--name", "run", "--storage-claim", "a_b"});
  say({"job.yaml", image, "--nodes", "2", "--name", "run", "--token-secret", "-"});
  say({"job.yaml", image, "--nodes", "2", "--name", "run", "--queue", "Team"});
  say({"job.yaml", image, "--nodes", "2", "--name", "run", "--node-label", "gpu"});
  say({"job.yaml", image, "--nodes", "2", "--name", "run", "--folder", "work"});
  say({"job.yaml", image, "--nodes", "2", "--set", "cluster.nodes=[a:1]"});
  say({"job.yaml", image, "--nodes", "2", "--set", "cluster.tls=/certs"});
  say({"job.yaml", image, "--nodes", "2", "--set", "run_config.user=alice"});
  expect_golden("k8s_errors", said);
}

TEST(Cli, DryRunStartsNothing) {
  Cluster cluster;
  Process& dry = cluster.start({"env", "-i", "PATH=/usr/bin:/bin", "HOME=" + cluster.path("home"),
                                built("train-run"), "run", two_worker_job(cluster), "--dry-run"});
  expect_golden("dry_run", said_by(cluster, dry));
  EXPECT_FALSE(exists(cluster.run_dir("demo")));
}

TEST(Cli, DryRunShowsTheGpusThatTheJobNamesItself) {
  Cluster cluster;
  Process& dry = cluster.train_run({"run", "--dry-run",
                                    cluster.job("job",
                                                "command: [x]\nenv: {CUDA_VISIBLE_DEVICES: '1'}\n"
                                                "backend_config: {deterministic: true}\n")});
  EXPECT_EQ(dry.wait(), 0) << dry.out() << dry.err();
  EXPECT_TRUE(contains(dry.out(), "    CUDA_VISIBLE_DEVICES=1\n")) << dry.out();
  EXPECT_TRUE(contains(dry.out(), "    CUBLAS_WORKSPACE_CONFIG=:4096:8\n")) << dry.out();
}

TEST(Cli, DryRunPutsAllWorkersOfAStrictPackOnOneNode) {
  Cluster cluster;
  const std::string job =
      cluster.job("job",
                  "command: [x]\ncluster: {nodes: ['a:1', 'b:1']}\n"
                  "scaling_config: {num_workers: 4, placement_strategy: STRICT_PACK}\n");
  Process& dry = cluster.train_run({"run", "--dry-run", job});
  EXPECT_EQ(dry.wait(), 0) << dry.out() << dry.err();
  EXPECT_FALSE(contains(dry.out(), "b:1")) << dry.out();
}

TEST(Cli, HostsThatNameNoDaemonAreRefused) {
  Cluster cluster;
  const std::string job = two_worker_job(cluster);
  cluster.write("none", "# none yet\n\n");
  cluster.write("one", "a:1\n");
  const StartOptions variable{
      .env = {{"TRAINRUN_HOSTS", "b:1"}}, .prefix = {}, .cwd = cluster.dir()};
  const auto print = [&](const std::vector<std::string>& words) -> Process& {
    std::vector<std::string> all{"run", job, "--print-config"};
    all.insert(all.end(), words.begin(), words.end());
    Process& process = cluster.train_run(all, variable);
    process.wait();
    return process;
  };

  EXPECT_TRUE(contains(print({"--hosts-file", "none"}).out(),
                       fmt::format("hosts_file: {}/none  # --hosts-file", cluster.dir())));
  EXPECT_EQ(print({"--hosts", ","}).err(),
            "train-run: error: --hosts or TRAINRUN_HOSTS names no daemon: write HOST:PORT\n");
  EXPECT_EQ(print({"--hosts", ""}).wait(), 78);
  EXPECT_EQ(print({"--hosts", ","}).wait(), 78);
  EXPECT_TRUE(contains(print({}).out(), "b:1"));
  EXPECT_TRUE(contains(print({"--hosts", "c:1"}).out(), "nodes: [\"c:1\"]"));
  Process& file = print({"--hosts-file", "one"});
  EXPECT_TRUE(contains(file.out(), "/one  # --hosts-file")) << file.out() << file.err();
  EXPECT_FALSE(contains(file.out(), "b:1")) << file.out();
}

TEST(Cli, APathOfTheCommandLineBeginsWhereTheCommandRuns) {
  Cluster cluster;
  const std::string job = two_worker_job(cluster);
  const std::string place = cluster.path("my #place's");
  std::filesystem::create_directories(place);
  const auto printed = [&](const std::string& option, std::map<std::string, std::string> env) {
    Process& process =
        cluster.train_run({"run", job, "--print-config", "--hosts", "a:1", option, "keys"},
                          {.env = std::move(env), .prefix = {}, .cwd = place});
    EXPECT_EQ(process.wait(), 0) << process.err();
    return process.out();
  };
  EXPECT_TRUE(contains(printed("--token-file", {}), "token_file: \"" + place + "/keys\""));
  EXPECT_TRUE(contains(printed("--tls", {}), "tls: \"" + place + "/keys\""));
  EXPECT_TRUE(contains(printed("--tls", {{"TRAINRUN_TOKEN_FILE", "/etc/token"}}), "/keys"));
  Process& at_home =
      cluster.train_run({"run", job, "--print-config", "--hosts", "a:1", "--tls=~/keys"},
                        {.env = {{"HOME", "/home/ada"}}, .prefix = {}, .cwd = place});
  EXPECT_EQ(at_home.wait(), 0) << at_home.err();
  EXPECT_TRUE(contains(at_home.out(), "tls: /home/ada/keys ")) << at_home.out();
  EXPECT_TRUE(contains(printed("--token-file", {{"TRAINRUN_TLS", "/etc/tls"}}), "/keys"));
}

TEST(Cli, KeepsTheSpecThatItReadEvenFromAPipe) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [\"true\"]\nscaling_config: {num_workers: 1}\n");
  Process& run =
      cluster.start({"sh", "-c", "cat " + job + " | " + built("train-run") + " /dev/stdin"});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/spec.yaml"), cluster.read(job));
}

TEST(Cli, AnOptionBeatsItsVariable) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({cluster.job("job",
                                     "command: [\"true\"]\n"
                                     "scaling_config: {num_workers: 1}\n")}),
            0);
  const StartOptions json{.env = {{"TRAINRUN_OUTPUT", "json"}}, .prefix = {}, .cwd = ""};
  for (const std::string command : {"status", "list"}) {
    std::vector<std::string> words{command, cluster.run_dir("job")};
    if (command == "list") words.insert(words.begin(), "checkpoint");
    Process& by_variable = cluster.train_run(words, json);
    EXPECT_EQ(by_variable.wait(), 0);
    EXPECT_EQ(by_variable.out().substr(0, 1), command == "list" ? "[" : "{");
    words.insert(words.end(), {"--output", "text"});
    Process& by_option = cluster.train_run(words, json);
    EXPECT_EQ(by_option.wait(), 0);
    EXPECT_NE(by_option.out().substr(0, 1), command == "list" ? "[" : "{");
  }
}

TEST(Cli, PrintConfigNamesTheOriginOfEachValue) {
  Cluster cluster;
  expect_golden(
      "print_config",
      said_by(cluster, cluster.train_run({two_worker_job(cluster), "--print-config", "--set",
                                          "run_config.failure_config.max_failures=3"})));
}

TEST(Cli, TraindRefusesANetworkAddressWithoutAToken) {
  Cluster cluster;
  Process& daemon = cluster.traind({"--allow-root", "--listen", "0.0.0.0:0", "--runtime-dir",
                                    cluster.path("d"), "--spool-dir", cluster.path("s")});
  daemon.wait();
  std::string said = said_by(cluster, daemon);
  for (std::size_t at; (at = said.find("ts=")) != std::string::npos;)
    said.replace(at, said.find(' ', at) - at, "TIME");
  expect_golden("traind_no_token", said);
}

TEST(Cli, ADrainOfNobody) {
  Cluster cluster;
  expect_golden(
      "traind_drain_nobody",
      said_by(cluster, cluster.start({built("traind"), "drain", "--runtime-dir", "none"})));
}

TEST(Cli, ADetachedRunWithoutATraind) {
  Cluster cluster;
  cluster.write("job.yaml", "name: job\ncommand: [\"true\"]\nscaling_config: {num_workers: 1}\n");
  expect_golden(
      "detach_nobody",
      said_by(cluster, cluster.train_run({"--detach", "--runtime-dir", "none", "job.yaml"})));
}

TEST(Cli, HelpOfCheckpoint) {
  Cluster cluster;
  std::string all = said_by(cluster, cluster.train_run({"checkpoint", "--help"}));
  for (const char* verb : {"list", "verify", "export", "pull", "now"})
    all += "\n" + said_by(cluster, cluster.train_run({"checkpoint", verb, "--help"}));
  expect_golden("checkpoint_help", all);
}

TEST(Cli, CheckpointsThatCannotBeHad) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [" + program("sdk_worker") +
                             "]\ntrain_loop_config: {mode: epochs, epochs: 2}\n"
                             "scaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}\n");
  ASSERT_EQ(cluster.run({job}), 0);
  const std::string run = cluster.run_dir("job");
  cluster.write("runs/job/checkpoints/checkpoint_000002/state.json", "{\"epoch\":9}");
  cluster.write("full", "");
  const std::vector<std::vector<std::string>> asked{{"list", "nobody"},
                                                    {"verify", run},
                                                    {"verify", run, "7"},
                                                    {"verify", run, "newest"},
                                                    {"export", run, "copy"},
                                                    {"export", run, "1", "full"},
                                                    {"export", run, "1", "runs"},
                                                    {"export", run, "1", "."},
                                                    {"export", run},
                                                    {"now", run},
                                                    {"now", "nobody"}};
  std::string all;
  for (std::vector<std::string> words : asked) {
    all += "$ train-run checkpoint";
    for (const std::string& word : words) all += " " + replaced(word, cluster.dir(), "DIR");
    words.insert(words.begin(), "checkpoint");
    all += "\n" + said_by(cluster, cluster.train_run(words));
  }
  expect_golden("checkpoint_errors", all);
}

/// Each command once aborted here, and a run with it.
TEST(Cli, AStdoutThatCannotBeWrittenIsOneErrorLineAndItsOwnExitCode) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [" + program("sdk_worker") +
                             "]\ntrain_loop_config: {mode: epochs, epochs: 2}\n"
                             "scaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}\n");
  ASSERT_EQ(cluster.run({job}), 0);
  const std::string run = cluster.run_dir("job");
  const std::vector<std::string> asked{"--help",
                                       "--version",
                                       "schema",
                                       "validate " + job,
                                       "run --print-config " + job,
                                       "run --dry-run " + job,
                                       "status " + run,
                                       "status --output json " + run,
                                       "logs " + run,
                                       "attach " + run,
                                       "checkpoint list " + run,
                                       "checkpoint verify " + run,
                                       "checkpoint export " + run + " copy",
                                       "can-restore " + run,
                                       job + " --set name=again"};
  for (const auto& [where, why] : {std::pair{" >/dev/full", "No space left on device"},
                                   std::pair{" >&-", "Bad file descriptor"}}) {
    for (const std::string& words : asked) {
      Process& process = cluster.start({"/bin/sh", "-c", built("train-run") + " " + words + where});
      // can-restore keeps its own exit code, which says that a finished run has nothing to resume.
      EXPECT_EQ(process.wait(), words.starts_with("can-restore") ? 1 : 74) << words << where;
      EXPECT_EQ(process.err(),
                std::string("train-run: error: stdout cannot be written: ") + why + "\n")
          << words << where;
      std::filesystem::remove_all(cluster.path("copy"));
      std::filesystem::remove_all(cluster.run_dir("again"));
    }
  }
}

TEST(Cli, WhatWorkersPrintedSteersNoTerminal) {
  Cluster cluster;
  const std::string job = cluster.job(
      "job", "command: [" + program("plain_worker") +
                 R"(, print, "a\e[31mred\e]0;title\ab", print, "\u202ec\x9b", print, "1%\r2%"]
scaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}
)");
  Process& launcher = cluster.train_run({job});
  ASSERT_EQ(launcher.wait(), 0);
  EXPECT_NE(launcher.out().find(" 0] aredb\n"), std::string::npos) << launcher.out();

  Process& logs = cluster.train_run({"logs", cluster.run_dir("job")});
  ASSERT_EQ(logs.wait(), 0);

  EXPECT_EQ(logs.out(), "[0] aredb\n[0] \\u202ec\\u009b\n[0] 2%\n");
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0000/stdout.log"),
            "a\x1b[31mred\x1b]0;title\x07"
            "b\n\u202ec\u009b\n1%\r2%\n");
}

}  // namespace
}  // namespace train::e2e
