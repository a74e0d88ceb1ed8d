// run_config.callbacks: [{command: …}] with the Python module trainrun.callbacks, in a process of
// its own beside the controller.
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

using Words = std::vector<std::string>;

class PythonCallbacks : public testing::Test {
 protected:
  /// `config` are members of train_loop_config of sdk_worker, which two workers run.
  std::string job(const std::string& config, const std::string& classes,
                  const std::string& failure_config = "{}") const {
    const std::string callbacks =
        classes.empty()
            ? ""
            : "  callbacks: [csv, {command: [python3, -m, trainrun.callbacks, " + classes + "]}]\n";
    return cluster.job("job",
                       fmt::format("command: [{}]\nworking_dir: {}/tests/e2e/programs\n"
                                   "env: {{TRAINRUN_LIBRARY: " LIBTRAINRUN "}}\n"
                                   "scaling_config: {{num_workers: 2, resources_per_worker: "
                                   "{{CPU: 0}}}}\ntrain_loop_config: {{{}}}\n",
                                   program("sdk_worker"), TRAIN_SOURCE_DIR, config),
                       callbacks + "  failure_config: " + failure_config + "\n");
  }
  StartOptions options(std::map<std::string, std::string> env = {}) const {
    env.insert({{"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"},
                {"PYTHONDONTWRITEBYTECODE", "1"},
                {"TOLD", cluster.path("told")}});
    return {.env = std::move(env), .prefix = {}, .cwd = ""};
  }
  Process& start(const std::string& job, std::map<std::string, std::string> env = {}) {
    return cluster.train_run({job}, options(std::move(env)));
  }
  Words told(const std::string& file = "told") const {
    Words lines;
    std::istringstream stream(cluster.read(cluster.path(file)));
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  Cluster cluster;
};

TEST_F(PythonCallbacks, AreToldInOrderBesideTheRun) {
  Process& run = start(job("mode: epochs, epochs: 3", "'callbacks_told:Told'"));
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  Words lines = told();
  ASSERT_EQ(lines.size(), 8u) << run.out();
  EXPECT_EQ(lines.front(), "start job");
  EXPECT_EQ(lines.back(), "finish None");
  for (int round = 1; round <= 3; ++round) {
    const auto handled = std::find(lines.begin(), lines.end(),
                                   fmt::format("handle 0.{0} {1} {1}", round, round - 1));
    ASSERT_NE(handled, lines.end()) << round;
    EXPECT_TRUE(std::any_of(handled, lines.end(), [&](const std::string& line) {
      return line.starts_with(fmt::format("after 0.{} {{", round));
    })) << round;
  }
  EXPECT_FALSE(contains(run.out(), "warning")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonCallbacks, TheVariableNamesThemToo) {
  Process& run =
      start(job("mode: epochs, epochs: 1", ""), {{"TRAINRUN_CALLBACKS", "callbacks_told:Told"}});
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(told().back(), "finish None");
}

TEST_F(PythonCallbacks, AreToldTheTruthOfAFailure) {
  Process& run =
      start(job("mode: epochs, epochs: 4, die_rank: 1, die_epoch: 2", "'callbacks_told:Told'"));
  EXPECT_EQ(run.wait(), 137);
  const Words lines = told();
  ASSERT_GE(lines.size(), 3u) << run.out();
  EXPECT_EQ(lines.front(), "start job");
  EXPECT_EQ(lines[lines.size() - 2], "exception 0 of ranks [1]");
  EXPECT_EQ(lines.back(), "finish WorkerGroupError");
}

TEST_F(PythonCallbacks, OneThatDiesIsWarnedOfAndResumeLetsItGoOnWhereItWas) {
  const std::string hold = cluster.path("go");
  const std::string path = job(
      fmt::format("mode: epochs, epochs: 6, on_stop: true, hold_file: '{}', hold_at: [4]", hold),
      "'callbacks_told:Told'");
  Process& first = start(path, {{"DIE_AT", "handle 0.2 1 1"}});
  ASSERT_TRUE(wait_until([&] {
    return contains(first.out(), "was killed by SIGKILL; it is told nothing more");
  })) << first.out()
      << first.err();
  ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() >= 4; }))
      << "the run goes on: " << first.out();
  const Words before = told();
  EXPECT_EQ(before.back(), "handle 0.2 1 1");
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  cluster.write("go-0-4", "");

  Process& second = cluster.train_run({"resume", cluster.run_dir("job")}, options());
  ASSERT_EQ(second.wait(), 0) << second.out() << second.err();

  Words lines = told();
  EXPECT_EQ(lines.back(), "finish None");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "start job"), 1);
  // What it was handling when it died is told once more; nothing else is, and nothing is left out.
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "handle 0.1 0 0"), 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "handle 0.2 1 1"), 2);
  for (int round = 3; round <= 6; ++round)
    EXPECT_EQ(std::count(lines.begin(), lines.end(),
                         fmt::format("handle 0.{0} {1} {1}", round, round - 1)),
              1)
        << round;
  for (int round = 1; round <= 6; ++round)
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                            [&](const std::string& line) {
                              return line.starts_with(fmt::format("after 0.{} {{", round));
                            }),
              1)
        << round;
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonCallbacks, HearOfACheckpointThatTheNextLauncherCommits) {
  const std::string script = TRAIN_SOURCE_DIR "/tests/e2e/programs/python_follow.py";
  Process& follower =
      cluster.start({"sh", "-c", "exec python3 \"$0\" \"$1\" </dev/null", script, cluster.path("")},
                    options({{"TRAINRUN_LIBRARY", LIBTRAINRUN}}));
  EXPECT_EQ(follower.wait(), 0) << follower.err();
  EXPECT_EQ(follower.out(), "handle 1\nafter 1 checkpoint_000001\n") << follower.err();
}

TEST_F(PythonCallbacks, OneThatThrowsOrCannotBeMadeChangesNothingForTheRun) {
  Process& run = start(
      cluster.job("job",
                  fmt::format("command: [{}]\nworking_dir: {}/tests/e2e/programs\n"
                              "env: {{TRAINRUN_LIBRARY: " LIBTRAINRUN "}}\n"
                              "train_loop_config: {{mode: epochs, epochs: 5}}\n",
                              program("sdk_worker"), TRAIN_SOURCE_DIR),
                  "  callbacks:\n"
                  "    - {command: [python3, -m, trainrun.callbacks, 'callbacks_told:Throws', "
                  "'callbacks_told:Told']}\n"
                  "    - {command: [python3, -m, trainrun.callbacks, 'callbacks_told:Broken']}\n"
                  "    - {command: [./no_such_program]}\n"));
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(told().back(), "finish None");
  // The run may have ended before it: then there is nothing more to tell.
  EXPECT_TRUE(contains(run.out(), "callbacks_told:Broken' exited with 1")) << run.out();
  EXPECT_TRUE(contains(run.out(), ": OSError: no server (its output: ")) << run.out();
  EXPECT_TRUE(contains(run.out(), "the callback './no_such_program' cannot be started"))
      << run.out();
  std::string logs;
  for (const auto& entry :
       std::filesystem::directory_iterator(cluster.run_dir("job") + "/callbacks"))
    if (entry.path().extension() == ".log") logs += cluster.read(entry.path().string());
  EXPECT_TRUE(contains(logs, "handle_result of Throws raised RuntimeError: I give up")) << logs;
}

}  // namespace
}  // namespace train::e2e
