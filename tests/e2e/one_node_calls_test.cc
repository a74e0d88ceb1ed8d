// Functions that workers serve are called from a shell and from drivers, and nobody is lost by it.
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

using Words = std::vector<std::string>;

class Calls : public testing::Test {
 protected:
  std::string job(const std::string& mode, const std::string& run_config = "") const {
    return cluster.job("job",
                       "command: [" + program("called_worker") +
                           "]\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n"
                           "train_loop_config: {mode: " +
                           mode + "}",
                       run_config);
  }
  /// Start the run, and wait until both ranks have reported.
  Process& begin(const std::string& mode, const std::string& run_config = "") {
    Process& run = cluster.train_run({"run", job(mode, run_config)});
    EXPECT_TRUE(wait_until([&] {
      const std::string log = read_file(cluster.run_dir("job") + "/metrics.jsonl");
      return contains(log, "\"rank\":0,") && contains(log, "\"rank\":1,");
    }));
    return run;
  }
  Process& exec(Words words) {
    Words all{"exec", cluster.run_dir("job")};
    all.insert(all.end(), words.begin(), words.end());
    Process& process = cluster.train_run(all);
    process.wait();
    return process;
  }
  void stop(Process& run) {
    cluster.run({"stop", cluster.run_dir("job")});
    EXPECT_EQ(run.wait(), 130) << run.err();
    EXPECT_TRUE(nothing_left(cluster));
  }
  Cluster cluster;
};

TEST_F(Calls, ExecPrintsWhatEachRankAnswers) {
  Process& run = begin("report");
  Process& all = exec({"add", "3"});
  EXPECT_EQ(all.wait(), 0) << all.err();
  EXPECT_EQ(all.out(), "rank 0: 3\nrank 1: 3\n");
  Process& one = exec({"add", "4", "--rank", "1"});
  EXPECT_EQ(one.out(), "7\n");
  Process& together = exec({"ranks", "--output", "json"});
  EXPECT_EQ(together.out(), R"({"ranks":[{"rank":0,"result":[0,1]},{"rank":1,"result":[0,1]}]})"
                            "\n");
  Process& at_once = exec({"pid", "--rank", "0"});
  EXPECT_EQ(at_once.out(), std::to_string(*cluster.worker(0)) + "\n");
  stop(run);
}

TEST_F(Calls, ExecRunsACommandBesideRanks) {
  Process& run = begin("report");
  Process& one = exec({"--rank", "1", "--", "sh", "-c",
                       "echo $RANK of $WORLD_SIZE; ls -d /proc/$TRAINRUN_WORKER_PID; exit 5"});
  EXPECT_EQ(one.wait(), 5) << one.err();
  EXPECT_EQ(one.out(), "1 of 2\n/proc/" + std::to_string(*cluster.worker(1)) + "\n");

  Process& all = exec({"--", "sh", "-c", "printf 'a\\nb'; echo c >&2; exit $RANK"});
  EXPECT_EQ(all.wait(), 1);
  EXPECT_EQ(all.out(), "rank 0: a\nrank 0: b\nrank 1: a\nrank 1: b\n");
  EXPECT_EQ(all.err(), "rank 0: c\nrank 1: c\n");

  Process& as_json = exec({"--rank", "0", "--output", "json", "--", "sh", "-c", "kill -9 $$"});
  EXPECT_EQ(as_json.wait(), 128 + SIGKILL);
  EXPECT_EQ(as_json.out(),
            R"({"ranks":[{"rank":0,"result":{"signal":"SIGKILL","stdout":"","stderr":""}}]})"
            "\n");
  stop(run);
}

TEST_F(Calls, ACommandThatCannotRunSaysWhy) {
  Process& run = begin("report");
  Process& late = exec({"--rank", "0", "--timeout", "300ms", "--", "sleep", "1000"});
  EXPECT_EQ(late.wait(), 124);
  EXPECT_TRUE(contains(late.err(), "/job: rank 0: error: the command took longer than --timeout"))
      << late.err();
  Process& missing = exec({"--rank", "0,7", "--", "no-such-program"});
  EXPECT_EQ(missing.wait(), 1);
  EXPECT_TRUE(contains(missing.err(), "rank 0: error: ")) << missing.err();
  EXPECT_TRUE(contains(missing.err(), "no-such-program")) << missing.err();
  EXPECT_TRUE(contains(missing.err(), "rank 7: error: it has no worker now")) << missing.err();
  for (const Words& words : {Words{}, Words{"--"}, Words{"add", "--", "ls"}}) {
    Process& wrong = exec(words);
    EXPECT_EQ(wrong.wait(), 2);
    EXPECT_TRUE(contains(wrong.err(), "-- and a command")) << wrong.err();
  }
  stop(run);
}

TEST_F(Calls, ErrorsNameRankAndFunctionAndTrainingGoesOn) {
  Process& run = begin("report");
  Process& thrown = exec({"fail", "--rank", "1"});
  EXPECT_EQ(thrown.wait(), 1);
  EXPECT_TRUE(contains(thrown.err(),
                       "/job: fail of rank 1: std::invalid_argument: no layer of this name\n"))
      << thrown.err();
  Process& missing = exec({"set_lr", "0.1", "--rank", "0"});
  EXPECT_EQ(missing.wait(), 1);
  EXPECT_TRUE(contains(missing.err(), "its program serves no 'set_lr'; it serves add, fail, hang,"))
      << missing.err();
  Process& nobody = exec({"add", "1", "--rank", "0,9"});
  EXPECT_EQ(nobody.wait(), 1);
  EXPECT_EQ(nobody.out(), "rank 0: 1\n");
  EXPECT_TRUE(contains(nobody.err(), "add of rank 9: it has no worker now")) << nobody.err();

  Process& text = exec({"add", "high"});
  EXPECT_EQ(text.wait(), 2);
  EXPECT_TRUE(contains(text.err(), "the argument is no JSON value")) << text.err();
  EXPECT_TRUE(contains(text.err(), "texts in quotes")) << text.err();
  EXPECT_EQ(exec({"no name"}).wait(), 2);
  EXPECT_EQ(exec({"add", "1", "--timeout", "long"}).wait(), 2);
  EXPECT_TRUE(run.running());
  stop(run);
  Process& ended = exec({"add", "1"});
  EXPECT_EQ(ended.wait(), 69);
  EXPECT_TRUE(contains(ended.err(), "is not running")) << ended.err();
}

TEST_F(Calls, ALoopThatDoesNotComeToTheCallIsWaitedForOnlySoLong) {
  Process& run = begin("silent", "  failure_config: {stop_grace: 1s}\n");
  Process& late = exec({"add", "1", "--timeout", "500ms"});
  EXPECT_EQ(late.wait(), 1);
  EXPECT_TRUE(contains(late.err(),
                       "add of rank 0: no answer within 500 ms: a program answers in "
                       "its next report() or poll()"))
      << late.err();
  EXPECT_EQ(exec({"pid"}).wait(), 0);  // at once
  cluster.run({"stop", cluster.run_dir("job")});
  run.wait();
}

TEST_F(Calls, AWorkerThatDiesAnswersNothingAndItsSuccessorIsNotCalledAgain) {
  Process& run = begin("poll", "  failure_config: {max_failures: 1}\n");
  EXPECT_EQ(exec({"add", "5"}).out(), "rank 0: 5\nrank 1: 5\n");
  Process& hangs = cluster.train_run({"exec", cluster.run_dir("job"), "hang", "--rank", "1"});
  ASSERT_TRUE(wait_until([&] {  // it is in the function: the samples name its phase
    Process& status = cluster.train_run({"status", cluster.run_dir("job"), "--output", "json"});
    status.wait();
    return contains(status.out(), "\"hang\"");
  }));
  send_signal(*cluster.worker(1), SIGKILL);
  EXPECT_EQ(hangs.wait(), 1);
  EXPECT_TRUE(contains(hangs.err(), "hang of rank 1: it has closed its connection") ||
              contains(hangs.err(), "hang of rank 1: attempt 0 ended before it answered") ||
              contains(hangs.err(), "hang of rank 1: it has no worker now"))
      << hangs.err();
  // The new workers go on from the checkpoint that the call before has made.
  ASSERT_TRUE(wait_until([&] { return exec({"add", "1"}).out() == "rank 0: 6\nrank 1: 6\n"; }));
  stop(run);
}

TEST_F(Calls, ALoopThatOnlyPollsStopsInGoodOrderAndGoesOn) {
  Process& run = begin("poll");
  EXPECT_EQ(exec({"add", "5"}).out(), "rank 0: 5\nrank 1: 5\n");
  stop(run);
  ASSERT_EQ(cluster.checkpoints("job").size(), 1u);

  Process& again = cluster.train_run({"resume", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] {  // it is running, and both ranks are called
    return exec({"add", "2", "--timeout", "2m"}).out() == "rank 0: 7\nrank 1: 7\n";
  }));
  stop(again);
}

TEST_F(Calls, DriversCallFromTheirLoopAndFromCallbacks) {
  Process& driver =
      cluster.start({program("driver"), "call", job("report")},
                    {.env = {{"TRAINRUN_PROGRAM", built("train-run")}}, .prefix = {}, .cwd = ""});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  const std::string out = driver.out();
  for (const char* line :
       {"before: Failure invalid_argument: call: this Trainer has not begun its job (start() "
        "does)\n",
        "add 0=2 1=2\n", "from a round: ranks 0=[0,1] 1=[0,1]\n",
        "CallFailed call of fail: rank 0: std::invalid_argument: no layer of this name (and 1 more "
        "ranks)\n",
        "result succeeded code 0", "after: Failure unavailable: call of add: the run has ended\n"})
    EXPECT_TRUE(contains(out, line)) << line << "\n" << out << driver.err();
  EXPECT_TRUE(nothing_left(cluster));
}

}  // namespace
}  // namespace train::e2e
