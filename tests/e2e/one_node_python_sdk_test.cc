// The Python package, in real runs: it goes on from checkpoints, stops in good order, and says what
// failed. It loads the libtrainrun.so of the build.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class PythonSdk : public testing::Test {
 protected:
  std::string job(const std::string& config, const std::string& more = "",
                  const std::string& run_config = "", const std::string& argument = "") {
    return cluster.job(
        "job",
        fmt::format("command: [python3, {}/tests/e2e/programs/trainrun_worker.py{}]\n"
                    "env: {{PYTHONPATH: '{}/sdk/python:{}', TRAINRUN_LIBRARY: {}, "
                    "PYTHONDONTWRITEBYTECODE: '1'}}\n"
                    "train_loop_config: {{{}}}\nmetadata: {{team: blue}}\n"
                    "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}{}}}",
                    TRAIN_SOURCE_DIR, argument, TRAIN_SOURCE_DIR, more_modules, LIBTRAINRUN, config,
                    more),
        run_config);
  }
  Process& profile_of_memory(double time) {
    return cluster.train_run({"profile", cluster.run_dir("job"), "--rank", "1", "--kind", "memory",
                              "--seconds", fmt::to_string(time)});
  }
  std::string output_of(int rank, int attempt = 0) const {
    return cluster.read(fmt::format("{}/attempts/{:03}/ranks/{:04}/stdout.log",
                                    cluster.run_dir("job"), attempt, rank));
  }
  void wait_for_output(const std::string& text) {
    ASSERT_TRUE(
        wait_until([&] { return contains(output_of(0), text) && contains(output_of(1), text); }));
  }
  std::string cause() const { return text_of(cluster.exit_json("job"), "cause"); }
  std::string stack() const {
    const auto error = boost::json::parse(
        cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0001/error.json"));
    return std::string(error.at("message").at("extraInfo").at("py_callstack").as_string());
  }

  Cluster cluster;
  std::string more_modules;  // a folder, whose modules the workers can import
};

TEST_F(PythonSdk, AKilledGroupGoesOnFromItsCheckpoint) {
  Process& run = cluster.train_run(
      {job("mode: epochs, epochs: 5, hold_at: 3", "", "  failure_config: {max_failures: 1}")});
  wait_for_output("holds\n");

  send_signal(cluster.worker(1).value(), SIGKILL);

  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(output_of(0, 1), "restored 2 0.5 2\n");
  EXPECT_EQ(output_of(1, 1), "restored 2 0.5 2\n");
  std::multiset<std::string> reports;
  for (const auto& line : cluster.metrics("job"))
    reports.insert(text_of(line, "rank") + " " + text_of(line.at("metrics").as_object(), "epoch"));
  EXPECT_EQ(reports, (std::multiset<std::string>{"0 0", "0 1", "0 2", "0 3", "0 4",  //
                                                 "1 0", "1 1", "1 2", "1 3", "1 4"}));
  EXPECT_EQ(boost::json::serialize(cluster.run_json("job").at("results")),
            R"([{"first":3},{"first":3}])");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonSdk, KnowsItsPlaceAndActsWithTheOthers) {
  const std::string once = cluster.path("once");
  Process& run = cluster.train_run({job(fmt::format("mode: facts, lr: 0.25, once: {}", once))});

  ASSERT_EQ(run.wait(), 0) << run.err();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(output_of(rank), fmt::format("{0} of 2, {0} of 2 on node 0 of 1, attempt 0\n"
                                           "job {1} 0.25 {{'team': 'blue'}} True\n"
                                           "{{'n': 3}} {{'from': 0}} "
                                           "[{{'of': [0, None]}}, {{'of': [1, None]}}]\nx\n",
                                           rank, cluster.run_dir("job")));
  }
}

TEST_F(PythonSdk, AStopIsNoExceptionAndKeepsACheckpoint) {
  Process& run = cluster.train_run({job("mode: stop")});
  ASSERT_TRUE(wait_until([&] { return !cluster.metrics("job").empty(); }));

  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130) << run.err();
  EXPECT_EQ(output_of(0), "cleaned up\n");
  EXPECT_EQ(output_of(1), "cleaned up\n");
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0000/stderr.log"), "");
  ASSERT_EQ(cluster.checkpoints("job").size(), 1u);
  const std::string state = cluster.read(cluster.run_dir("job") + "/checkpoints/" +
                                         cluster.checkpoints("job")[0] + "/state.json");
  EXPECT_GE(boost::json::parse(state).at("at").as_int64(), 1);
}

TEST_F(PythonSdk, AnExceptionIsTheCauseWithItsTraceback) {
  Process& run = cluster.train_run({job("mode: fail")});

  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(cause(), "rank 1")) << cause();
  EXPECT_TRUE(contains(cause(), "failed with BadRow: row 7 of 5")) << cause();
  EXPECT_TRUE(stack().starts_with("Traceback (most recent call last):\n")) << stack();
  EXPECT_TRUE(contains(stack(), "trainrun_worker.py\", line")) << stack();
  EXPECT_TRUE(contains(stack(), "BadRow: row 7 of 5\nlooks odd\n")) << stack();
}

TEST_F(PythonSdk, SoIsOneBeforeTheFirstCall) {
  Process& run = cluster.train_run({job("mode: fail", "", "", ", early")});

  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(cause(), "failed with BadRow: before any call")) << cause();
}

TEST_F(PythonSdk, AProcessThatStoodByKnowsItsEnvironment) {
  Process& run = cluster.train_run(
      {job("mode: standby", ", standby_workers: 2", "  failure_config: {max_failures: 1}")});
  wait_for_output("holds\n");
  ASSERT_TRUE(wait_until([&] { return cluster.standbys().size() == 2; }));
  send_signal(cluster.worker(1).value(), SIGKILL);

  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "(2 from standby)")) << run.out();
  EXPECT_EQ(output_of(0, 1), "RANK=0 0 None\n");
  EXPECT_EQ(output_of(1, 1), "RANK=1 1 None\n");
}

TEST_F(PythonSdk, MemrayShowsWhatPythonsFunctionsAllocate) {
  if (memray_folder().empty()) GTEST_SKIP() << "memray is not installed";
  more_modules = memray_folder();
  const std::string end = cluster.path("end");
  Process& run = cluster.train_run({job("mode: memory, end_at: " + end)});
  wait_for_output("allocates\n");

  for (int time = 0; time < 2; ++time) {  // one after the other
    Process& taken = profile_of_memory(1);
    ASSERT_EQ(taken.wait(), 0) << taken.err();
    EXPECT_TRUE(contains(taken.out(), "by memray")) << taken.out();
    EXPECT_TRUE(contains(taken.out(), "hoard (trainrun_worker.py)")) << taken.out();
    EXPECT_TRUE(contains(taken.out(), "waste (trainrun_worker.py)")) << taken.out();
    EXPECT_FALSE(contains(taken.out(), "without the functions")) << taken.out();
  }
  cluster.write("end", "");
  ASSERT_EQ(run.wait(), 0) << run.err();
}

TEST_F(PythonSdk, AProgramThatEndsEndsItsProfileOfMemory) {
  if (memray_folder().empty()) GTEST_SKIP() << "memray is not installed";
  more_modules = memray_folder();
  const std::string end = cluster.path("end");
  Process& run = cluster.train_run({job("mode: memory, end_at: " + end)});
  wait_for_output("allocates\n");
  Process& taken = profile_of_memory(60);
  const std::string own = fmt::format("/proc/{}/fd", cluster.worker(1).value());
  ASSERT_TRUE(wait_until([&] {  // memray writes
    for (const auto& entry : std::filesystem::directory_iterator(own)) {
      std::error_code gone;
      if (contains(std::filesystem::read_symlink(entry, gone).string(), "trainrun-memory"))
        return true;
    }
    return false;
  }));

  cluster.write("end", "");

  ASSERT_EQ(run.wait(), 0) << run.err();
  (void)taken.wait();  // what it has depends on which end comes first
  EXPECT_FALSE(contains(run.err(), "terminate")) << run.err();
}

TEST_F(PythonSdk, WithoutMemrayTheProfileSaysSo) {
  const std::string end = cluster.path("end");
  Process& run = cluster.train_run({job("mode: memory, end_at: " + end)});
  wait_for_output("allocates\n");

  Process& taken = profile_of_memory(0.3);
  ASSERT_EQ(taken.wait(), 0) << taken.err();
  EXPECT_TRUE(contains(taken.out(),
                       "note: without the functions of Python: memray is not "
                       "installed in the worker's environment"))
      << taken.out();
  cluster.write("end", "");
  ASSERT_EQ(run.wait(), 0) << run.err();
}

}  // namespace
}  // namespace train::e2e
