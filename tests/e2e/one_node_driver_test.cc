// Programs that start train-run and follow the run: train::Trainer, and the protocol below it
// (docs/driver.md).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kTwoWorkers =
    "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n";

class Drivers : public testing::Test {
 protected:
  Process& drive(const std::string& mode, const std::string& job) {
    return cluster.start(
        {program("driver"), mode, job},
        {.env = {{"TRAINRUN_PROGRAM", built("train-run")}}, .prefix = {}, .cwd = ""});
  }
  /// Write a job of sdk_worker with two workers. `config` are members of its train_loop_config.
  std::string job(const std::string& config, const std::string& run_config = "") const {
    return cluster.job("job",
                       "command: [" + program("sdk_worker") + "]\n" + kTwoWorkers +
                           "train_loop_config: {" + config + "}",
                       run_config);
  }
  /// Return the driver's own lines, without train-run's.
  Words told(const Process& driver, const std::string& beginning) const {
    Words lines;
    std::istringstream stream(driver.out());
    for (std::string line; std::getline(stream, line);)
      if (line.starts_with(beginning)) lines.push_back(line);
    return lines;
  }
  Cluster cluster;
};

TEST_F(Drivers, FitReturnsTheResult) {
  Process& driver = drive("fit", job("mode: epochs, epochs: 3, checkpoint_every: 2"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_TRUE(contains(driver.out(), "job: 2 workers on 1 node")) << "train-run's output is shown";
  EXPECT_TRUE(contains(
      driver.out(),
      R"(result succeeded code 0 metrics {"attempt":0,"epoch":2,"loss":0.3333333333333333})"))
      << driver.out();
  EXPECT_TRUE(contains(driver.out(), R"( checkpoints 1 newest {"epoch":1})")) << driver.out();
}

TEST_F(Drivers, AProgramCanBeItsOwnWorkers) {
  Process& driver =
      cluster.start({program("driver"), "self"},
                    {.env = {{"TRAINRUN_PROGRAM", built("train-run")}, {"RUNS", cluster.storage()}},
                     .prefix = {},
                     .cwd = ""});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(contains(driver.out(), R"(metrics {"epoch":1} returned "trained" checkpoints 0)"))
      << driver.out();
}

TEST_F(Drivers, AProgramThatIsItsOwnWorkersIsShipped) {
  const std::string project = cluster.path("project");
  std::filesystem::create_directories(project + "/build");
  std::filesystem::copy_file(program("driver"), project + "/build/driver");
  std::ofstream(project + "/.gitignore") << "build\n";
  Process& driver = cluster.start({project + "/build/driver", "self"},
                                  {.env = {{"TRAINRUN_PROGRAM", built("train-run")},
                                           {"RUNS", cluster.storage()},
                                           {"SHIP", project}},
                                   .prefix = {},
                                   .cwd = ""});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(contains(driver.out(), R"(returned "trained with what was shipped")"))
      << driver.out();
}

TEST_F(Drivers, CallbacksAreToldInOrderAlsoOfAFailure) {
  Process& driver = drive(
      "callbacks", job("mode: epochs, epochs: 4, die_rank: 1, die_epoch: 2, die_after_file: " +
                           cluster.run_dir("job") + "/checkpoints/checkpoint_000002/.manifest.json",
                       "  failure_config: {max_failures: 1}\n"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  Words lines;
  for (const std::string& line : told(driver, ""))
    for (const char* ours : {"start ", "handle ", "after ", "attempt 0 failed: rank 1 ",
                             "  rank 1: killed", "finish ", "result "})
      if (line.starts_with(ours)) lines.push_back(line.substr(0, line.find(" on ")));
  // Rank 0 may have reported once or twice more than rank 1: no round of it is complete.
  EXPECT_EQ(lines.at(0), "start job");
  const Words rounds = [&] {
    Words some;
    for (const std::string& line : lines)
      if (line.starts_with("handle ")) some.push_back(line);
    return some;
  }();
  EXPECT_EQ(rounds, (Words{"handle round 0.1 ordinal 1 checkpoint 0 0",
                           "handle round 0.2 ordinal 2 checkpoint 1 1",
                           "handle round 1.1 ordinal 3 checkpoint 2 2",
                           "handle round 1.2 ordinal 4 checkpoint 3 3"}));
  const auto at = [&](const std::string& line) {
    return std::find_if(lines.begin(), lines.end(),
                        [&](const auto& one) { return one.starts_with(line); }) -
           lines.begin();
  };
  EXPECT_LT(at("handle round 0.1"), at("after 0.1 {\"epoch\":0}"));
  EXPECT_LT(at("after 0.1"), at("after 0.2 {\"epoch\":1}"));
  // The callback's second line: train-run itself may say the first one, too, and earlier.
  EXPECT_LT(at("after 0.2"), at("  rank 1: killed"));
  EXPECT_LT(at("attempt 0 failed"), at("  rank 1: killed 0 SIGKILL"));
  EXPECT_LT(at("  rank 1: killed"), at("handle round 1.1"));
  EXPECT_LT(at("after 1.2 {\"epoch\":3}"), at("finish "));
  EXPECT_EQ(lines.at(lines.size() - 2), "finish ");
  EXPECT_TRUE(lines.back().starts_with("result succeeded")) << lines.back();
}

TEST_F(Drivers, ACallbackThatThrowsIsNamedAndSwitchedOff) {
  Process& driver = drive("throwing", job("mode: epochs, epochs: 5, checkpoint_every: 0"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_TRUE(
      contains(driver.err(), "trainrun: warning: handle_result of Printer threw: I give up\n"))
      << driver.err();
  // after_report() succeeds between its failures, so it is never three in a row.
  EXPECT_EQ(told(driver, "handle ").size(), 5u);
  EXPECT_FALSE(contains(driver.err(), "it is told nothing more"));
}

TEST_F(Drivers, RoundsGoOnAfterAFailureAndSayWhatIsDoneAgain) {
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
  EXPECT_TRUE(contains(driver.out(), "result succeeded code 0")) << driver.out();
}

TEST_F(Drivers, AFailureSaysWhoFailedAndHow) {
  Process& driver = drive("fit", job("mode: fail, fail_rank: 1"));
  EXPECT_EQ(driver.wait(), 1);

  EXPECT_TRUE(contains(driver.out(), "WorkerGroupError rank 1 on ")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "\n  rank 1: exited 1  the learning rate")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "result failed code 1 ")) << driver.out();
}

TEST_F(Drivers, AFailureIsThrownEachTime) {
  Process& driver = drive("twice", job("mode: fail, fail_rank: 1"));
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_TRUE(contains(driver.out(), "first rank 1 on ")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "WorkerGroupError rank 1 on ")) << driver.out();
}

TEST_F(Drivers, MistakesInTheSpecAreQuoted) {
  Process& driver =
      drive("quiet", cluster.job("job", "comand: [true]\nscaling_config: {num_workers: -4}"));
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_TRUE(contains(driver.out(), "SpecError ")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "\"comand\" is not a key of the spec")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), "scaling_config.num_workers")) << driver.out();
  EXPECT_EQ(driver.err(), "");
}

TEST_F(Drivers, AMissingTrainRunIsNamed) {
  Process& driver =
      cluster.start({program("driver"), "fit", job("mode: metrics")},
                    {.env = {{"TRAINRUN_PROGRAM", "/nowhere/train-run"}}, .prefix = {}, .cwd = ""});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_EQ(driver.out(),
            "ControllerError cannot start '/nowhere/train-run': No such file or directory (set "
            "TRAINRUN_PROGRAM, "
            "or put train-run on PATH)\n");
}

TEST_F(Drivers, ADriverStopsTheRunAndItsCheckpointIsKept) {
  Process& driver = drive(
      "stop", job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true, ahead: 100"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_EQ(told(driver, "round ").size(), 3u);
  EXPECT_EQ(told(driver, "no result yet").size(), 1u);
  EXPECT_TRUE(contains(driver.out(), "result succeeded code 0")) << driver.out();
  EXPECT_TRUE(contains(driver.out(), R"(newest {"epoch":-1,"on_stop":true})")) << driver.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Drivers, TheRunOfADriverThatIsKilledStopsInGoodOrder) {
  Process& driver =
      drive("stall",
            job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true, ahead: 100"));
  ASSERT_TRUE(wait_until([&] { return !told(driver, "round ").empty(); }))
      << driver.out() << driver.err();
  driver.signal(SIGKILL);
  EXPECT_EQ(driver.wait(), 128 + SIGKILL);

  ASSERT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.exit_json("job").at("code").to_number<int>(), 75);
  EXPECT_EQ(text_of(cluster.exit_json("job"), "cause"), "its driver is gone");
  EXPECT_EQ(cluster.checkpoints("job").size(), 1u);
}

TEST_F(Drivers, OrGoesOnIfItMay) {
  Process& driver = drive("leave", job("mode: asked, finish_file: " + cluster.path("finish")));
  ASSERT_TRUE(wait_until([&] { return !told(driver, "round ").empty() || !driver.running(); }))
      << driver.err();
  driver.signal(SIGKILL);
  driver.wait();
  cluster.write("finish", "");

  ASSERT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.exit_json("job").at("code").to_number<int>(), 0);
}

// Workers do not wait for a driver that reads nothing.
TEST_F(Drivers, AStoppedDriverHoldsUpNobody) {
  Process& driver = drive("stall", job("mode: epochs, epochs: 20000, checkpoint_every: 0"));
  ASSERT_TRUE(wait_until([&] { return !told(driver, "round ").empty(); })) << driver.err();
  driver.signal(SIGSTOP);

  ASSERT_TRUE(wait_until([&] { return exists(cluster.run_dir("job") + "/exit.json"); }));
  EXPECT_EQ(cluster.exit_json("job").at("code").to_number<int>(), 0);
  driver.signal(SIGKILL);
}

TEST_F(Drivers, APaceOfOneIsLockStep) {
  Process& driver =
      drive("pace", job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true"));
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_EQ(told(driver, "Failure "),
            Words{"Failure invalid_argument: iterate: this Trainer was started with pace 1, not 2: "
                  "give the pace to start()"});
  EXPECT_EQ(told(driver, "round "),
            (Words{"round 0.1 ordinal 1 0 0: 2 reports", "round 0.2 ordinal 2 1 1: 4 reports",
                   "round 0.3 ordinal 3 2 2: 6 reports"}))
      << "nobody has begun the next step, nor after stop()";
  EXPECT_TRUE(contains(driver.out(), R"(result succeeded code 0 metrics {"attempt":0,"epoch":2)"))
      << driver.out();
  EXPECT_TRUE(contains(driver.out(), R"(newest {"epoch":-1,"on_stop":true})")) << driver.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Drivers, APaceHoldsNobodyOnceARankHasEnded) {
  Process& driver = drive("pace", job("mode: uneven"));
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_TRUE(contains(driver.out(),
                       "Failure ranks_disagree: the ranks have made unequal numbers "
                       "of reports: rank 0 0, rank 1 3"))
      << driver.out() << driver.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Drivers, APaceHoldsNobodyOnceTheDriverIsGone) {
  Process& driver = drive("leave-pace", job("mode: epochs, epochs: 50, checkpoint_every: 0"));
  ASSERT_TRUE(wait_until([&] { return !told(driver, "round ").empty() || !driver.running(); }))
      << driver.err();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(cluster.json_lines(cluster.read(cluster.run_dir("job") + "/metrics.jsonl")).size(), 2u)
      << "the workers wait for the driver";
  driver.signal(SIGKILL);
  driver.wait();

  ASSERT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.exit_json("job").at("code").to_number<int>(), 0);
}

TEST_F(Drivers, APaceHoldsNobodyOnceTheLauncherHasDied) {
  Process& driver = drive("leave-pace", job("mode: epochs, epochs: 50, checkpoint_every: 0"));
  ASSERT_TRUE(wait_until([&] { return !told(driver, "round ").empty() || !driver.running(); }))
      << driver.err();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(cluster.json_lines(cluster.read(cluster.run_dir("job") + "/metrics.jsonl")).size(), 2u)
      << "the workers wait for the driver";
  for (const Seen& seen : cluster.processes("--pace")) send_signal(seen.pid, SIGKILL);
  driver.signal(SIGKILL);
  driver.wait();

  Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});
  EXPECT_EQ(resumed.wait(), 0) << resumed.err();
  EXPECT_TRUE(nothing_left(cluster));
  expect_one_attempt(cluster, "job", 2, 50);
}

/// A driver made by hand: this test itself.
class Protocol : public Drivers {
 protected:
  Protocol() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ours = ends[0];
    theirs = ends[1];
    ::fcntl(ours, F_SETFD, FD_CLOEXEC);
  }
  ~Protocol() override {
    ::close(ours);
    if (theirs >= 0) ::close(theirs);
  }
  Process& start(const std::string& job) {
    Process& run = cluster.train_run({"run", job, "--driver-fd", std::to_string(theirs)});
    ::close(std::exchange(theirs, -1));
    return run;
  }
  void send(const std::string& text) const {
    ASSERT_EQ(::send(ours, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// Read until train-run closes its end. Return the events.
  std::vector<boost::json::object> rest() {
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::recv(ours, buffer, sizeof buffer, 0)) > 0;)
      text.append(buffer, static_cast<std::size_t>(count));
    return cluster.json_lines(text);
  }
  int ours = -1, theirs = -1;
};

TEST_F(Protocol, EventsTellOfTheWholeRun) {
  Process& run = start(job("mode: epochs, epochs: 2"));
  const auto events = rest();
  EXPECT_EQ(run.wait(), 0) << run.err();

  Words names;
  std::uint64_t logged = 0;
  for (const boost::json::object& event : events) {
    const std::string name = text_of(event, "event");
    if (name == "logged") logged = event.at("bytes").to_number<std::uint64_t>();
    if (name != "logged" && name != "phase") names.push_back(name);
  }
  EXPECT_EQ(names, (Words{"run", "started", "attempt", "checkpoint", "checkpoint", "end"}));
  EXPECT_EQ(events.at(0).at("protocol").to_number<int>(), 1);
  EXPECT_EQ(text_of(events.at(0), "folder"), cluster.run_dir("job"));
  EXPECT_EQ(logged, cluster.read(cluster.run_dir("job") + "/metrics.jsonl").size());
  EXPECT_TRUE(contains(run.out(), "job: 2 workers on 1 node")) << "people are told as ever";
}

TEST_F(Protocol, WhatIsNoCommandIsSaidAndChangesNothing) {
  Process& run = start(job("mode: asked, finish_file: " + cluster.path("finish")));
  send("hello\n{\"command\": \"fly\"}\n{}\n[1]\n{\"command\": 3}\n");
  ASSERT_TRUE(wait_until([&] {
    return contains(run.out(), "the driver sent a line without a command: {\"command\": 3}");
  })) << run.out();
  EXPECT_TRUE(contains(run.out(), "the driver sent a line that is no JSON object: hello"))
      << run.out();
  EXPECT_TRUE(contains(run.out(), R"(the driver sent an unknown command: {"command": "fly"})"))
      << run.out();
  cluster.write("finish", "");
  EXPECT_EQ(text_of(rest().back(), "event"), "end");
  EXPECT_EQ(run.wait(), 0) << run.err();
}

TEST_F(Protocol, ALineWithoutEndIsTheEnd) {
  Process& run =
      start(job("mode: epochs, epochs: 1000000, checkpoint_every: 0, on_stop: true, ahead: 100"));
  std::string much(64 << 10, 'x');
  for (int i = 0; i < 40; ++i)
    if (::send(ours, much.data(), much.size(), MSG_NOSIGNAL) < 0) break;
  EXPECT_EQ(run.wait(), 75) << run.err();
  EXPECT_TRUE(contains(run.out(), "the driver is gone: it sent a line of more than 1 MiB"))
      << run.out();
}

TEST_F(Protocol, OnlyASocketIsTaken) {
  std::ofstream(cluster.path("file")).close();
  Process& run = cluster.start({"sh", "-c",
                                "exec " + built("train-run") + " run " + job("mode: metrics") +
                                    " --driver-fd 5 5<>" + cluster.path("file")});
  EXPECT_EQ(run.wait(), 2);
  EXPECT_EQ(
      run.err(),
      "train-run: error: --driver-fd: descriptor 5 is no Unix stream socket\n"
      "train-run: a driver passes one end of socketpair(AF_UNIX, SOCK_STREAM) to train-run\n");
  Process& detached =
      cluster.train_run({"run", job("mode: metrics"), "--detach", "--driver-fd", "5"});
  EXPECT_EQ(detached.wait(), 2);
  EXPECT_TRUE(contains(detached.err(), "--driver-fd and --detach exclude each other"))
      << detached.err();
}

TEST_F(Protocol, AllEventsOnStdoutAreTheSame) {
  Process& run = cluster.train_run({"run", job("mode: fail, fail_rank: 1"), "--events", "all"});
  EXPECT_EQ(run.wait(), 1);
  const auto events = cluster.json_lines(run.out());
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(text_of(events.front(), "event"), "run");
  EXPECT_EQ(text_of(events.back(), "event"), "end");
  const boost::json::object& exception = events.at(events.size() - 2);
  EXPECT_EQ(text_of(exception, "event"), "exception");
  const boost::json::object& rank = exception.at("ranks").as_array().at(0).as_object();
  EXPECT_EQ(rank.at("rank").to_number<int>(), 1);
  EXPECT_EQ(text_of(rank, "kind"), "exited");
  EXPECT_EQ(text_of(rank.at("error").as_object(), "type"), "std::runtime_error");
}

}  // namespace
}  // namespace train::e2e
