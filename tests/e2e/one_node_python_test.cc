// Stacks and profiles of workers in Python, by the real py-spy: installed where the worker's
// environment says, where ours does, or not at all.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class PythonWorkers : public testing::Test {
 protected:
  void SetUp() override {
    if (tools_python().empty()) GTEST_SKIP() << "the tools' Python is not installed";
    if (py_spy_folder().empty()) GTEST_SKIP() << "py-spy is not installed";
  }

  /// Start a run of two ranks, of which rank 1 does `how`, and wait until both do what they do.
  Process& start(const std::string& how, const std::string& more = "",
                 const std::string& failure_config = "hang_timeout: 1h") {
    const std::string job = cluster.job(
        "job",
        fmt::format("command: [{}, {}/tests/e2e/programs/python_worker.py, {}]\n"
                    "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}\n{}",
                    tools_python(), TRAIN_SOURCE_DIR, how, more),
        "  failure_config: {" + failure_config + "}");
    Process& run = cluster.train_run({job});
    EXPECT_TRUE(wait_until([&] {
      return contains(output_of(0), "waits\n") &&
             contains(output_of(1), how == "burn" ? "burns\n" : "waits\n");
    })) << run.err();
    return run;
  }
  std::string output_of(int rank) const {
    return cluster.read(
        fmt::format("{}/attempts/000/ranks/{:04}/stdout.log", cluster.run_dir("job"), rank));
  }
  /// The worker's environment has py-spy.
  static std::string with_py_spy() { return "env: {VIRTUAL_ENV: " + py_spy_folder() + "}\n"; }
  std::string stacks(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"stacks", cluster.run_dir("job")};
    words.insert(words.end(), more.begin(), more.end());
    Process& taken = cluster.train_run(words);
    EXPECT_EQ(taken.wait(), 0) << taken.err();
    return taken.out();
  }
  void stop(Process& run) {
    EXPECT_TRUE(run.running());
    EXPECT_EQ(cluster.workers().size(), 2u);
    run.signal(SIGINT);
    ASSERT_TRUE(wait_until([&] { return contains(run.out(), "stopping"); }));
    run.signal(SIGINT);
    EXPECT_EQ(run.wait(), 130);
  }

  Cluster cluster;
};

TEST_F(PythonWorkers, AreInPythonsFunctions) {
  Process& run = start("read", with_py_spy());

  const std::string text = stacks();
  EXPECT_TRUE(contains(text, " <- wait_for_peers python_worker.py:14\n")) << text;
  EXPECT_TRUE(contains(text, "rank 1 in read <- load python_worker.py:21\n")) << text;
  EXPECT_FALSE(contains(text, "note: ")) << text;
  const std::string whole = stacks({"--rank", "1"});
  EXPECT_TRUE(contains(whole, "python_worker.py:21 (Python)\n")) << whole;
  EXPECT_TRUE(contains(whole, " <module> ")) << whole;
  EXPECT_TRUE(contains(whole, "[libc.so.6+0x")) << whole;
  EXPECT_FALSE(contains(whole, "_PyEval_EvalFrameDefault")) << whole;
  const std::string json = stacks({"--rank", "1", "--output", "json"});
  EXPECT_TRUE(contains(json, R"("line":21,"inlined":false,"guessed":false,"python":true)")) << json;

  stop(run);
}

TEST_F(PythonWorkers, AThreadThatHoldsTheGilIsNamed) {
  Process& run = start("lock", with_py_spy());

  const std::string text = stacks({"--rank", "1"});
  EXPECT_TRUE(contains(text, "Python's thread 'native-call' (tid ")) << text;
  EXPECT_TRUE(contains(text, " holds the GIL")) << text;
  EXPECT_TRUE(contains(text, "hold_the_lock ")) << text;
  EXPECT_TRUE(contains(text, "rank 1 in ")) << text;

  stop(run);
}

TEST_F(PythonWorkers, WithoutPySpyHaveNativeStacksAndAdvice) {
  Process& run = start("read");

  const std::string text = stacks();
  EXPECT_TRUE(contains(text,
                       "note: ranks 0-1: no Python frames: py-spy is not installed (pip "
                       "install py-spy in the worker's environment)\n"))
      << text;
  EXPECT_TRUE(contains(text, "rank 1 in read")) << text;
  EXPECT_FALSE(contains(text, "python_worker.py")) << text;
  Process& profile = cluster.train_run(
      {"profile", cluster.run_dir("job"), "--rank", "1", "--seconds", "0.5", "--kind", "wall"});
  EXPECT_EQ(profile.wait(), 0) << profile.err();
  EXPECT_TRUE(contains(profile.out(), "by ptrace")) << profile.out();
  EXPECT_TRUE(contains(profile.out(),
                       "note: without the functions of Python: py-spy is not "
                       "installed (pip install py-spy"))
      << profile.out();

  stop(run);
}

TEST_F(PythonWorkers, ThatHangLeaveTheirPythonStacks) {
  Process& run = start("read", with_py_spy(), "hang_timeout: 2s");
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(run.out() + run.err(), "rank 1 in read <- load python_worker.py:21"))
      << run.out() << run.err();
}

TEST_F(PythonWorkers, HaveProfilesOfPythonsFunctions) {
  Process& run = start("burn", with_py_spy());

  Process& cpu =
      cluster.train_run({"profile", cluster.run_dir("job"), "--rank", "1", "--seconds", "1"});
  EXPECT_EQ(cpu.wait(), 0) << cpu.err();
  EXPECT_TRUE(contains(cpu.out(), ", by py-spy")) << cpu.out();
  EXPECT_TRUE(contains(cpu.out(), "burn (python_worker.py:34)")) << cpu.out();
  Process& wall = cluster.train_run(
      {"profile", cluster.run_dir("job"), "--rank", "0", "--seconds", "1", "--kind", "wall"});
  EXPECT_EQ(wall.wait(), 0) << wall.err();
  EXPECT_TRUE(contains(wall.out(), "100 %  wait_for_peers (python_worker.py:11)")) << wall.out();

  stop(run);
}

// Attaching memray could kill it.
TEST_F(PythonWorkers, AreToldHowToProfileTheirMemory) {
  Process& run = start("read");
  Process& none = cluster.train_run(
      {"profile", cluster.run_dir("job"), "--rank", "1", "--seconds", "0.1", "--kind", "memory"});
  EXPECT_EQ(none.wait(), 69);
  EXPECT_TRUE(contains(none.err(), "does not use trainrun's SDK")) << none.err();
  EXPECT_TRUE(contains(none.err(), "memray shows what Python allocates: install it")) << none.err();
  stop(run);
}

}  // namespace
}  // namespace train::e2e
