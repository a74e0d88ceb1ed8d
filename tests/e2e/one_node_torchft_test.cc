// Replica groups (backend: torchft) on one machine: each is a run of its own, beside a lighthouse.
// Most tests have a program in its place that only listens; the real one trains in LargeTorchft,
// which is an entry of its own (`make clients`).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

/// How a worker lives: until the file `go` is there.
const char* const kWaits = "while [ ! -e $D/go ]; do sleep 0.05; done";

class Torchft : public testing::Test {
 protected:
  /// Write a job whose workers note who and where they are, and then do `then`, in a shell.
  std::string job(const std::string& then = kWaits, const std::string& config = "",
                  const std::string& more = "", const std::string& run_config = "",
                  int workers = 1) const {
    return cluster.job(
        "job",
        fmt::format("command: |\n"
                    "  D={}; G=$REPLICA_GROUP_ID; A=$TORCHELASTIC_RESTART_COUNT\n"
                    "  env | sort > $D/env-$G-$RANK; echo $$ > $D/.pid-$G-$RANK\n"
                    "  mv $D/.pid-$G-$RANK $D/pid-$G-$RANK-$A\n"
                    "  echo this is group $G\n"
                    "  {}\n"
                    "backend: torchft\n"
                    "backend_config: {{replica_groups: 2, lighthouse: [{}, {}]{}}}\n{}"
                    "scaling_config: {{num_workers: {}, resources_per_worker: {{CPU: 0}}}}",
                    cluster.dir(), then, program_file("fake_lighthouse.py"), notes(), config, more,
                    workers),
        run_config);
  }
  static std::string program_file(const std::string& name) {
    return std::string(TRAIN_SOURCE_DIR) + "/tests/e2e/programs/" + name;
  }
  std::string notes() const { return cluster.path("lighthouse"); }
  std::string folder() const { return cluster.run_dir("job"); }
  std::string group(int number) const { return fmt::format("{}/groups/00{}", folder(), number); }
  std::string pid_file(int group, int rank, int attempt = 0) const {
    return cluster.path(fmt::format("pid-{}-{}-{}", group, rank, attempt));
  }
  /// Wait until the worker runs, and return its process.
  pid_t worker(int group, int rank = 0, int attempt = 0) {
    const std::string file = pid_file(group, rank, attempt);
    EXPECT_TRUE(wait_until([&] { return exists(file); })) << file;
    return exists(file) ? std::stoi(read_file(file)) : 0;
  }
  /// Return how the lighthouse was started, each time: "--min_replicas 1 --bind … pid N".
  std::vector<std::string> lighthouses() const {
    std::vector<std::string> lines;
    std::istringstream text(exists(notes()) ? read_file(notes()) : "");
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  static pid_t pid_of(const std::string& note) {
    return std::stoi(note.substr(note.rfind(' ') + 1));
  }
  static std::string without_pid(const std::string& note) {
    return note.substr(0, note.rfind(" pid "));
  }
  std::map<std::string, std::string> environment(int group, int rank) const {
    std::map<std::string, std::string> variables;
    std::istringstream text(read_file(cluster.path(fmt::format("env-{}-{}", group, rank))));
    for (std::string line; std::getline(text, line);)
      variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    return variables;
  }
  json::object status() {
    Process& asked = cluster.train_run({"status", folder(), "--output", "json"});
    EXPECT_EQ(asked.wait(), 0) << asked.err();
    const auto lines = cluster.json_lines(asked.out());
    return lines.size() == 1 ? lines[0] : json::object{};
  }
  std::vector<std::string> states() {
    std::vector<std::string> states;
    const json::object shown = status();
    if (!shown.contains("groups")) return states;
    for (const auto& one : shown.at("groups").as_array())
      states.push_back(std::string(one.at("state").as_string()));
    return states;
  }
  void go() const { cluster.write("go", ""); }

  Cluster cluster;
};

using Texts = std::vector<std::string>;

TEST_F(Torchft, EachGroupIsAWorldOfItsOwnThatKnowsItsNumberAndTheLighthouse) {
  go();
  Process& run = cluster.train_run({job(kWaits, "", "", "", 2)});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  const Texts started = lighthouses();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_TRUE(started[0].starts_with("--min_replicas 1 --bind 127.0.0.1:")) << started[0];
  const std::string url = "http://" + without_pid(started[0]).substr(24);
  for (const int group : {0, 1})
    for (const int rank : {0, 1}) {
      auto variables = environment(group, rank);
      EXPECT_EQ(variables["TORCHFT_LIGHTHOUSE"], url);
      EXPECT_EQ(variables["REPLICA_GROUP_ID"], std::to_string(group));
      EXPECT_EQ(variables["NUM_REPLICA_GROUPS"], "2");
      EXPECT_EQ(variables["RANK"], std::to_string(rank));
      EXPECT_EQ(variables["WORLD_SIZE"], "2");
      EXPECT_EQ(variables["MASTER_ADDR"], environment(group, 0)["MASTER_ADDR"]);
      EXPECT_EQ(variables["MASTER_PORT"], environment(group, 0)["MASTER_PORT"]);
    }
  EXPECT_NE(environment(0, 0)["MASTER_PORT"], environment(1, 0)["MASTER_PORT"]);
  EXPECT_TRUE(contains(run.out(), "this is group 0")) << run.out();
  EXPECT_FALSE(contains(run.out(), "this is group 1")) << "its output is in its folder";
  EXPECT_TRUE(contains(run.out(), "all replica groups have finished\n")) << run.out();
  EXPECT_FALSE(contains(run.out() + run.err(), "warning")) << run.out() << run.err();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));

  EXPECT_EQ(states(), (Texts{"finished", "finished"}));
  EXPECT_EQ(text_of(status(), "lighthouse"), url);
  Process& first = cluster.train_run({"logs", folder()});
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_TRUE(contains(first.out(), "this is group 0")) << first.out();
  EXPECT_TRUE(contains(first.err(), "group 0 of 2")) << first.err();
  Process& second = cluster.train_run({"logs", folder() + "/1"});
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_TRUE(contains(second.out(), "this is group 1")) << second.out();
  EXPECT_EQ(cluster.run({"resume", folder()}), 73) << "nothing is left to do";
  EXPECT_EQ(cluster.run({cluster.path("job.yaml")}), 73) << "its folder is taken";
}

TEST_F(Torchft, ALighthouseThatDiesComesBackAtItsAddressAndTheGroupsGoOn) {
  Process& run = cluster.train_run({job()});
  const pid_t workers[] = {worker(0), worker(1)};
  ASSERT_EQ(lighthouses().size(), 1u);

  send_signal(pid_of(lighthouses()[0]), SIGKILL);

  ASSERT_TRUE(wait_until([&] { return lighthouses().size() == 2; })) << run.err();
  EXPECT_EQ(without_pid(lighthouses()[1]), without_pid(lighthouses()[0]));
  EXPECT_TRUE(wait_until([&] { return contains(run.err(), "the lighthouse is up again"); }))
      << run.err();
  EXPECT_TRUE(contains(run.err(), "the lighthouse was killed by SIGKILL: it is started again"))
      << run.err();
  const auto living = cluster.worker_pids();
  for (const pid_t one : workers) EXPECT_TRUE(living.contains(one));
  go();
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Torchft, AGroupThatDiesComesBackWhileTheOtherGoesOn) {
  Process& run = cluster.train_run({job()});
  const pid_t other = worker(0);

  send_signal(worker(1), SIGKILL);

  worker(1, 0, 1);
  EXPECT_TRUE(cluster.worker_pids().contains(other));
  EXPECT_TRUE(wait_until([&] { return contains(run.err(), "group 1: an attempt failed: "); }))
      << run.err();
  go();
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_FALSE(exists(pid_file(0, 0, 1)));
  EXPECT_EQ(status().at("groups").at(1).at("restarts"), 1);
}

TEST_F(Torchft, AGroupThatFailsForGoodIsNamedAndTheOthersFinish) {
  Process& run =
      cluster.train_run({job(std::string("[ $G = 0 -o -e $D/mended ] || exit 7; ") + kWaits, "", "",
                             "  failure_config: {max_failures: 0}")});
  EXPECT_TRUE(wait_until([&] { return contains(run.err(), "1 of 2 groups is left, and go on"); }))
      << run.out() << run.err();

  go();

  EXPECT_EQ(run.wait(), 7) << run.out() << run.err();
  EXPECT_TRUE(contains(run.err(), "train-run: error: group 1 failed: rank 0 ")) << run.err();
  EXPECT_TRUE(contains(run.err(), "its output: train-run logs " + folder() + "/1")) << run.err();
  EXPECT_EQ(states(), (Texts{"finished", "errored"}));
  EXPECT_EQ(status().at("exit").at("code"), 7);
  EXPECT_EQ(status().at("exit").at("group"), 1);

  cluster.write("mended", "");
  Process& again = cluster.train_run({"resume", folder()});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_FALSE(exists(pid_file(0, 0, 1))) << "it had finished";
  EXPECT_EQ(states(), (Texts{"finished", "finished"}));
}

TEST_F(Torchft, WithTooFewGroupsTheRestIsStopped) {
  Process& run =
      cluster.train_run({job(std::string("[ $G = 1 ] || exit 7; ") + kWaits, ", min_replicas: 2",
                             "", "  failure_config: {max_failures: 0}")});

  EXPECT_EQ(run.wait(), 7) << run.out() << run.err();
  EXPECT_TRUE(contains(run.err(), "backend_config.min_replicas is 2: they are stopped"))
      << run.err();
  EXPECT_TRUE(lighthouses().at(0).starts_with("--min_replicas 2 ")) << lighthouses()[0];
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Torchft, AProgramThatIsWrongDoesNotRestartForEver) {
  Process& run = cluster.train_run(
      {job("exit 1", "", "", "  failure_config: {backoff: {initial: 10ms, max: 20ms}}")});

  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();
  EXPECT_TRUE(contains(run.err(), "5 times in a row")) << run.err();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Torchft, CtrlCStopsAllAndResumeGoesOnWithAll) {
  Process& run = cluster.train_run({job()});
  worker(0), worker(1);

  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "go on with: train-run resume " + folder())) << run.out();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  go();
  Process& again = cluster.train_run({"resume", folder()});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), (Texts{"finished", "finished"}));
  EXPECT_EQ(without_pid(lighthouses().at(1)), without_pid(lighthouses().at(0)));
  EXPECT_TRUE(exists(pid_file(0, 0, 1)) && exists(pid_file(1, 0, 1)));
}

TEST_F(Torchft, ResumeLeavesOutWhatHasFinished) {
  Process& run = cluster.train_run({job(std::string("[ $G = 1 ] || exit 0; ") + kWaits)});
  worker(1);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "group 0: has finished"); }))
      << run.out() << run.err();
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.out() << run.err();
  go();

  Process& again = cluster.train_run({"resume", folder()});

  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_TRUE(contains(again.out(), "job: 2 replica groups, 1 of which have finished"))
      << again.out();
  EXPECT_FALSE(exists(pid_file(0, 0, 1)));
}

TEST_F(Torchft, AKilledRunLeavesNothingAndCanGoOn) {
  Process& run = cluster.train_run({job()});
  worker(0), worker(1);

  run.signal(SIGKILL);

  EXPECT_EQ(run.wait(), 137);
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(status().at("state"), "interrupted");
  go();
  Process& again = cluster.train_run({"resume", folder()});
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_EQ(states(), (Texts{"finished", "finished"}));
}

TEST_F(Torchft, AKilledRunCanGoOnAtOnce) {
  Process& run = cluster.train_run({job()});
  worker(0), worker(1);
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), 137);

  Process& again = cluster.train_run({"resume", folder()});  // while its groups are stopping

  worker(0, 0, 1), worker(1, 0, 1);
  go();
  EXPECT_EQ(again.wait(), 0) << again.out() << again.err();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Torchft, AGroupWhoseTrainRunIsKilledGoesOnWithItsWorkers) {
  Process& run = cluster.train_run({job()});
  const pid_t workers[] = {worker(0), worker(1)};
  const auto controllers = cluster.processes("--shared-daemon");
  ASSERT_EQ(controllers.size(), 2u);

  send_signal(controllers[1].pid, SIGKILL);

  EXPECT_TRUE(wait_until([&] {
    return contains(run.err(), "its train-run was killed by signal 9");
  })) << run.err();
  EXPECT_TRUE(wait_until([&] { return cluster.processes("--shared-daemon").size() == 2; }));
  go();
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_FALSE(exists(pid_file(0, 0, 1)) || exists(pid_file(1, 0, 1)))
      << "the workers " << workers[0] << " and " << workers[1] << " stayed";
}

TEST_F(Torchft, StopStopsAllOrOneGroup) {
  Process& run = cluster.train_run({job()});
  worker(0), worker(1);
  Process& one = cluster.train_run({"stop", folder() + "/1"});
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_TRUE(wait_until([&] {
    return contains(run.err(), "group 1: was stopped") &&
           contains(run.err(), "1 of 2 groups is left, and go on");
  })) << run.err();

  Process& all = cluster.train_run({"stop", folder()});

  EXPECT_EQ(all.wait(), 0) << all.err();
  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_EQ(states(), (Texts{"stopped", "stopped"}));
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Torchft, WithoutALighthouseNothingStarts) {
  const std::string yaml =
      "backend: torchft\nbackend_config: {replica_groups: 2}\nscaling_config: "
      "{num_workers: 1, resources_per_worker: {CPU: 0}}";
  const StartOptions no_path{.env = {{"PATH", "/usr/bin:/bin"}}};
  Process& shell = cluster.train_run({cluster.job("job", "command: exit 0\n" + yaml)}, no_path);
  EXPECT_EQ(shell.wait(), 69) << shell.out() << shell.err();
  EXPECT_TRUE(contains(shell.err(),
                       "torchft's lighthouse is not installed: torchft_lighthouse is not on PATH"))
      << shell.err();
  Process& python =
      cluster.train_run({cluster.job("job", "command: [python3, train.py]\n" + yaml)}, no_path);
  EXPECT_EQ(python.wait(), 69) << python.out() << python.err();
  EXPECT_TRUE(contains(python.err(), "/usr/bin/python3 -m pip install torchft")) << python.err();
  EXPECT_FALSE(exists(folder()));

  Process& wrong = cluster.train_run({job(), "--set", "backend_config.lighthouse=[no_such]"});
  EXPECT_EQ(wrong.wait(), 69) << wrong.out() << wrong.err();
  EXPECT_TRUE(contains(wrong.err(), "backend_config.lighthouse names no_such, which is no program"))
      << wrong.err();
  EXPECT_FALSE(exists(folder()));

  Process& fails = cluster.train_run({job(), "--set",
                                      fmt::format("backend_config.lighthouse=[{}, {}, fail]",
                                                  program_file("fake_lighthouse.py"), notes())});
  EXPECT_EQ(fails.wait(), 69) << fails.out() << fails.err();
  EXPECT_TRUE(contains(fails.err(), "the lighthouse exited with 3 (it said: nobody can bind this)"))
      << fails.err();
  EXPECT_FALSE(exists(pid_file(0, 0)) || exists(pid_file(1, 0)));
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Torchft, ALighthouseOfTheUsersIsUsed) {
  go();
  Process& run = cluster.train_run({job(kWaits, "", "env: {TORCHFT_LIGHTHOUSE: http://mine:1}\n")});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(lighthouses(), Texts{});
  EXPECT_EQ(environment(1, 0)["TORCHFT_LIGHTHOUSE"], "http://mine:1");
  EXPECT_EQ(environment(1, 0)["REPLICA_GROUP_ID"], "1");
}

TEST_F(Torchft, GroupsThatDoNotFitTogetherAreRefused) {
  Process& run = cluster.train_run({job(), "--set", "scaling_config.resources_per_worker.CPU=1",
                                    "--set", "backend_config.replica_groups=1000"});

  EXPECT_EQ(run.wait(), 69) << run.out() << run.err();
  EXPECT_TRUE(contains(run.err(), "1000 replica groups with 1 worker each do not fit on this"))
      << run.err();
  EXPECT_FALSE(exists(folder()));
}

TEST_F(Torchft, OnNamedNodesGroupsArePlacedAsAnyRunAndTheLighthouseIsReachable) {
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  Process& daemon =
      cluster.traind({"--listen", "127.0.0.1:0", "--token-file", token, "--runtime-dir",
                      cluster.path("own"), "--spool-dir", cluster.path("spool"), "--allow-root"});
  const std::string listens = "on=127.0.0.1:";
  ASSERT_TRUE(wait_until([&] { return contains(daemon.err(), listens); })) << daemon.err();
  const int port = std::stoi(daemon.err().substr(daemon.err().find(listens) + listens.size()));

  Process& run = cluster.train_run(
      {job(), "--hosts", fmt::format("127.0.0.1:{}", port), "--token-file", token});

  worker(0), worker(1);
  EXPECT_TRUE(lighthouses().at(0).starts_with("--min_replicas 1 --bind 127.0.0.1:"));
  EXPECT_TRUE(cluster.processes("--private").empty()) << "no traind of our own";
  go();
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
}

TEST_F(Torchft, WhatGroupsCannotDoIsRefused) {
  for (const std::string option : {"--detach", "--requeue"}) {
    Process& run = cluster.train_run({job(), option});
    EXPECT_EQ(run.wait(), 2) << run.out() << run.err();
    EXPECT_TRUE(contains(run.err(), option + " cannot be used with backend: torchft")) << run.err();
  }
  Process& sweep = cluster.train_run(
      {"sweep", job(kWaits, "", "sweep: {metric: loss, num_trials: 1, parameters: {x: 1}}\n")});
  EXPECT_EQ(sweep.wait(), 78) << sweep.out() << sweep.err();
  EXPECT_TRUE(contains(sweep.err(), "a trial of a sweep cannot have replica groups"))
      << sweep.err();
}

TEST_F(Torchft, ADryRunShowsOneGroup) {
  Process& run = cluster.train_run({job(), "--dry-run"});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "one of 2 replica groups")) << run.out();
  EXPECT_TRUE(contains(run.out(), "REPLICA_GROUP_ID=0")) << run.out();
  EXPECT_FALSE(exists(folder()));
}

TEST_F(Torchft, TellsProgramsWhatHappensAsJson) {
  go();
  Process& run = cluster.train_run({job(), "--output", "json"});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  const auto events = cluster.json_lines(run.out());
  ASSERT_EQ(events.size(), 4u) << run.out();
  EXPECT_EQ(events[0].at("event"), "groups_started");
  EXPECT_EQ(events[1].at("event"), "group_finished");
  EXPECT_EQ(events[2].at("event"), "group_finished");
  EXPECT_EQ(events[3].at("event"), "end");
  EXPECT_EQ(events[3].at("code"), 0);
}

/// With the real torchft: the example, two groups of one worker.
class LargeTorchft : public testing::Test {
 protected:
  void SetUp() override {
    if (torchft_python().empty()) GTEST_SKIP() << "torchft is not installed";
  }
  Process& train(int steps) {
    return cluster.train_run(
        {std::string(TRAIN_SOURCE_DIR) + "/examples/torchft/job.yaml", "--set", "name=job", "--set",
         "run_config.storage_path=" + cluster.storage(), "--set",
         fmt::format("command=[{}, train.py, \"{}\", \"0.05\"]", torchft_python(), steps), "--set",
         "scaling_config.resources_per_worker.CPU=0"});
  }
  std::string folder() const { return cluster.run_dir("job"); }
  /// Return what the group's attempt has printed so far.
  std::string said(int group, int attempt) const {
    const std::string path =
        fmt::format("{}/groups/00{}/attempts/00{}/ranks/0000/stdout.log", folder(), group, attempt);
    return exists(path) ? read_file(path) : "";
  }
  static std::string weights_in(const std::string& text) {
    const std::size_t at = text.find(": weights ");
    return at == std::string::npos ? "none" : text.substr(at + 10);
  }
  Cluster cluster;
};

TEST_F(LargeTorchft, AKilledGroupComesBackWithTheWeightsOfTheOther) {
  Process& run = train(1600);
  const auto long_time = std::chrono::minutes(4);
  const auto says = [&](int group, int attempt, const std::string& text) {
    return wait_until([&] { return contains(said(group, attempt), text); }, long_time);
  };
  ASSERT_TRUE(says(0, 0, "2 of 2 groups")) << run.out() << run.err();
  const auto workers = cluster.workers(0);
  ASSERT_EQ(workers.size(), 2u);
  const auto of_group_1 = std::find_if(workers.begin(), workers.end(), [&](const Seen& one) {
    return contains(read_file(fmt::format("/proc/{}/environ", one.pid)), "REPLICA_GROUP_ID=1");
  });
  ASSERT_NE(of_group_1, workers.end());

  send_signal(of_group_1->pid, SIGKILL);

  EXPECT_TRUE(says(1, 1, "2 of 2 groups")) << "it has rejoined\n" << run.err();
  EXPECT_EQ(run.wait(long_time), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(said(0, 0), "step 1600: weights ")) << said(0, 0);
  EXPECT_TRUE(contains(said(1, 1), "step 1600: weights ")) << said(1, 1);
  EXPECT_EQ(weights_in(said(0, 0)), weights_in(said(1, 1)));
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(LargeTorchft, GroupsTrainOnUnderALighthouseThatWasKilled) {
  Process& run = train(400);
  ASSERT_TRUE(
      wait_until([&] { return contains(said(0, 0), "2 of 2 groups"); }, std::chrono::minutes(4)))
      << run.out() << run.err();
  const auto lighthouse = cluster.processes("torchft_lighthouse");
  ASSERT_EQ(lighthouse.size(), 1u);

  send_signal(lighthouse[0].pid, SIGKILL);

  EXPECT_EQ(run.wait(std::chrono::minutes(6)), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.err(), "the lighthouse is up again")) << run.err();
  EXPECT_TRUE(contains(said(0, 0), "step 400: weights ")) << said(0, 0);
  EXPECT_TRUE(contains(said(1, 0), "step 400: weights ")) << said(1, 0);
  EXPECT_EQ(weights_in(said(0, 0)), weights_in(said(1, 0)));
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

}  // namespace
}  // namespace train::e2e
