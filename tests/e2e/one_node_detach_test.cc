// train-run --detach: the run goes on without a terminal, whether traind or its controller dies.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <fstream>
#include <set>
#include <thread>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr int kEpochs = 12;

class Detach : public ::testing::Test {
 protected:
  /// Return a job of two workers that report kEpochs epochs with checkpoints; the sixth waits.
  std::string training(const std::string& run_config = "") {
    return cluster.job(
        "job",
        fmt::format("command: [{}]\nscaling_config: {{num_workers: 2, resources_per_worker: {{CPU: "
                    "0}}}}\ntrain_loop_config: {{mode: epochs, epochs: {}, on_stop: true, "
                    "hold_file: '{}', hold_at: [6]}}\n",
                    program("sdk_worker"), kEpochs, cluster.path("go")),
        run_config);
  }
  void go_on() { cluster.write("go-0-6", ""); }
  /// Detach, and wait for the sixth epoch.
  void detach(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--detach");
    Process& run = cluster.train_run(arguments);
    ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
    EXPECT_TRUE(contains(run.out(), "train-run attach job")) << run.out();
    ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() >= 6; })) << log();
  }
  std::string log() { return cluster.read(cluster.run_dir("job") + "/launcher.log"); }
  std::set<pid_t> pids(const std::string& containing) {
    std::set<pid_t> all;
    for (const Seen& seen : cluster.processes(containing)) all.insert(seen.pid);
    return all;
  }
  std::set<pid_t> controllers() { return pids("--detached-controller"); }
  void kill_all(const std::set<pid_t>& all) {
    ASSERT_EQ(all.size(), 1u);
    for (const pid_t pid : all) send_signal(pid, SIGKILL);
  }
  /// Kill both at the same moment, so that neither starts the other again.
  void kill_controller_and_traind() {
    const std::set<pid_t> controller = controllers();
    for (const pid_t pid : controller) send_signal(pid, SIGSTOP);
    kill_all(pids("traind --private"));
    kill_all(controller);
    EXPECT_TRUE(
        wait_until([&] { return controllers().empty() && pids("traind --private").empty(); }));
  }
  std::string said_by(std::vector<std::string> arguments) {
    Process& process = cluster.train_run(arguments);
    EXPECT_TRUE(process.wait().has_value());
    return process.out() + process.err();
  }
  /// Wait until controllers have found the workers of their predecessors so many times.
  bool resumed(std::size_t times) {
    return wait_until([&] {
      const std::string text = log();
      std::size_t found = 0;
      for (std::size_t at = 0; (at = text.find("still running on", at)) != std::string::npos; ++at)
        ++found;
      return found >= times;
    });
  }
  void expect_good_end() {
    EXPECT_TRUE(wait_until([&] { return exists(cluster.run_dir("job") + "/exit.json"); })) << log();
    EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "0");
    expect_one_attempt(cluster, "job", 2, kEpochs);
  }
  void expect_nothing_left() {
    EXPECT_TRUE(nothing_left(cluster));
    EXPECT_FALSE(exists(cluster.run_dir("job") + "/.detached"));
  }

  Cluster cluster;
};

TEST_F(Detach, AKilledControllerIsBackByItself) {
  detach({training()});
  const std::set<pid_t> workers = cluster.worker_pids();
  EXPECT_EQ(workers.size(), 2u);

  const std::set<pid_t> first = controllers();
  kill_all(first);
  ASSERT_TRUE(resumed(1)) << log();
  EXPECT_NE(controllers(), first);
  EXPECT_EQ(cluster.worker_pids(), workers);

  go_on();
  expect_good_end();
  expect_nothing_left();
}

TEST_F(Detach, TheirTraindMayDieBeforeTheController) {
  detach({training()});
  const std::set<pid_t> workers = cluster.worker_pids();
  const std::set<pid_t> daemon = pids("traind --private");
  kill_all(daemon);
  ASSERT_TRUE(wait_until([&] {
    const std::set<pid_t> now = pids("traind --private");
    return now.size() == 1 && now != daemon;
  })) << log();

  kill_all(controllers());
  ASSERT_TRUE(resumed(1)) << log();
  EXPECT_EQ(cluster.worker_pids(), workers);

  go_on();
  expect_good_end();
  expect_nothing_left();
}

TEST_F(Detach, AfterControllerAndPrivateTraindResumeDetachesAgain) {
  detach({training()});
  const std::set<pid_t> workers = cluster.worker_pids();
  kill_controller_and_traind();

  Process& resume = cluster.train_run({"resume", "--detach", cluster.run_dir("job")});
  ASSERT_EQ(resume.wait(), 0) << resume.out() << resume.err();
  ASSERT_TRUE(resumed(1)) << log();
  kill_all(controllers());
  ASSERT_TRUE(resumed(2)) << log();
  EXPECT_EQ(cluster.worker_pids(), workers);

  go_on();
  expect_good_end();
  expect_nothing_left();
}

TEST_F(Detach, NobodyTakesItUpByItselfAfterBoth) {
  detach({training("  failure_config: {orphan_timeout: 1s, stop_grace: 100ms}")});
  kill_controller_and_traind();

  const std::string how = "its controller and its traind have died; `train-run resume --detach " +
                          cluster.run_dir("job") + "`";
  for (const char* command : {"status", "stop"})
    EXPECT_TRUE(contains(said_by({command, "job"}), how)) << said_by({command, "job"});
  EXPECT_TRUE(wait_until([&] { return cluster.workers().empty(); }));  // by their orphan timeout
  EXPECT_TRUE(contains(said_by({"status", "job"}), how)) << said_by({"status", "job"});

  go_on();
  ASSERT_EQ(cluster.run({"resume", "--detach", cluster.run_dir("job")}), 0);
  EXPECT_TRUE(wait_until([&] { return exists(cluster.run_dir("job") + "/exit.json"); })) << log();
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "0");
  EXPECT_EQ(cluster.checkpoints("job").size(), static_cast<std::size_t>(kEpochs)) << log();
  expect_nothing_left();
}

TEST_F(Detach, ATraindOfTheUsersTakesItsControllersUpAgain) {
  const auto daemon = [&](const std::string& listen) -> Process& {
    return cluster.traind({"--allow-root", "--listen", listen, "--runtime-dir", cluster.path("own"),
                           "--spool-dir", cluster.path("spool")});
  };
  const std::string listen = "unix:" + cluster.path("own/traind.sock");
  Process& first = daemon(listen);
  ASSERT_TRUE(wait_until([&] { return contains(first.err(), "msg=listening"); })) << first.err();
  detach({"--runtime-dir", cluster.path("own"), "--hosts", listen, training()});
  const std::set<pid_t> workers = cluster.worker_pids();
  EXPECT_TRUE(pids("traind --private").empty());

  first.signal(SIGKILL);
  EXPECT_EQ(first.wait(), 137);
  kill_all(controllers());
  Process& second = daemon(listen);
  ASSERT_TRUE(resumed(1)) << log() << second.err();
  kill_all(controllers());
  ASSERT_TRUE(resumed(2)) << log() << second.err();
  EXPECT_EQ(cluster.worker_pids(), workers);

  go_on();
  expect_good_end();
  EXPECT_TRUE(wait_until([&] { return cluster.processes().size() == 1; }));
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(), 0);
  expect_nothing_left();
}

TEST_F(Detach, AttachFollowsItThroughTheDeathOfAController) {
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run(
      {"--detach", cluster.job("job", "command: [" + program("plain_worker") + ", wait-for, " + go +
                                          ", exit, 3]\nscaling_config: {num_workers: 1}")});
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  ASSERT_TRUE(wait_until([&] { return !cluster.workers().empty(); }));
  Process& attached = cluster.train_run({"attach", "job"});
  ASSERT_TRUE(wait_until([&] { return contains(attached.out(), "checkpoint:"); }));

  kill_all(controllers());
  ASSERT_TRUE(resumed(1)) << log();
  cluster.write("go", "");

  EXPECT_EQ(attached.wait(), 3) << attached.out() << attached.err();
  EXPECT_TRUE(contains(attached.out(), "errored, exit code 3")) << attached.out();
  expect_nothing_left();
}

TEST_F(Detach, StopStopsIt) {
  detach({training()});
  Process& stop = cluster.train_run({"stop", "job"});
  ASSERT_TRUE(wait_until([&] { return contains(log(), "stopping"); })) << log();
  go_on();

  EXPECT_EQ(stop.wait(), 0) << stop.err();
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "130");
  expect_nothing_left();
}

TEST_F(Detach, ControllersThatFollowADeadOneStopItAsWasAsked) {
  detach({training()});
  Process& stop = cluster.train_run({"stop", "job"});
  ASSERT_TRUE(wait_until([&] { return contains(log(), "stopping"); })) << log();

  kill_all(controllers());
  go_on();

  EXPECT_EQ(stop.wait(), 0) << stop.err();
  EXPECT_EQ(stop.out(), "asked job to checkpoint and stop\nstopped\n");
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "130");
  EXPECT_FALSE(exists(cluster.run_dir("job") + "/.stop.taken"));
  expect_nothing_left();
}

TEST_F(Detach, OfASpecThatCanBeReadOnceOnly) {
  const std::string pipe = cluster.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "command: [\"true\"]\n"; });
  Process& run = cluster.train_run({"--detach", pipe});

  EXPECT_EQ(run.wait(), 2);
  writer.join();
  EXPECT_TRUE(contains(run.err(), "is no regular file")) << run.err();
  expect_nothing_left();
}

TEST_F(Detach, WhatKeepsItFromStartingIsSaidHere) {
  const std::string wrong = cluster.write("wrong.yaml", "comand: [x]\n");
  Process& misspelt = cluster.train_run({"--detach", wrong});
  EXPECT_EQ(misspelt.wait(), 78);
  EXPECT_TRUE(contains(misspelt.err(), "did you mean command")) << misspelt.err();

  const std::string job = cluster.job("job", "command: [\"true\"]\n");
  ASSERT_EQ(cluster.run({job}), 0);
  Process& again = cluster.train_run({"--detach", job});
  EXPECT_EQ(again.wait(), 73) << again.err();
  EXPECT_TRUE(contains(again.err(), "the run job has finished")) << again.err();

  Process& nobody = cluster.train_run({"--detach", "--runtime-dir", cluster.path("none"), job});
  EXPECT_EQ(nobody.wait(), 69);
  EXPECT_TRUE(contains(nobody.err(), "no traind runs in " + cluster.path("none"))) << nobody.err();
  expect_nothing_left();
}

TEST_F(Detach, TwoOfOneJobAtOnceAreTwoRuns) {
  const std::string job = cluster.write(
      "my.yaml",
      "command: [\"true\"]\nscaling_config: {num_workers: 1}\nrun_config: {storage_path: " +
          cluster.storage() + "}\n");
  std::vector<Process*> runs;
  for (int i = 0; i < 2; ++i) runs.push_back(&cluster.train_run({"--detach", job}));
  std::set<std::string> folders;
  for (Process* run : runs) {
    ASSERT_EQ(run->wait(), 0) << run->out() << run->err();
    const std::string said = "\nfolder: ";
    const auto at = run->out().find(said) + said.size();
    folders.insert(run->out().substr(at, run->out().find('\n', at) - at));
  }

  EXPECT_EQ(folders.size(), 2u);
  for (const std::string& folder : folders)
    EXPECT_TRUE(wait_until([&] { return exists(folder + "/exit.json"); })) << folder;
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Detach, ADefaultNameIsChosenBefore) {
  const std::string job = cluster.write(
      "my.yaml",
      "command: [\"true\"]\nscaling_config: {num_workers: 1}\nrun_config: {storage_path: " +
          cluster.storage() + "}\n");
  Process& run = cluster.train_run({"--detach", job});
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  const std::string said = "\nfolder: ";
  const auto at = run.out().find(said);
  ASSERT_NE(at, std::string::npos) << run.out();
  const std::string text = run.out().substr(at + said.size());
  const std::string folder = text.substr(0, text.find('\n'));
  EXPECT_TRUE(contains(folder, cluster.storage() + "/my-")) << folder;
  EXPECT_TRUE(wait_until([&] { return exists(folder + "/exit.json"); })) << run.out();
  expect_nothing_left();
}

}  // namespace
}  // namespace train::e2e
