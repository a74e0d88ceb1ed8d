// Sweeps whose values a program of the user's proposes, with real trials (docs/sweep.md, "A
// searcher of your own").
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>
#include <map>

#include "tests/e2e/sweep_fixture.h"

namespace train::e2e {
namespace {

/// A sweep whose values programs/searcher.py proposes.
class Searchers : public Sweep {
 protected:
  std::string searched(const std::string& mode, int trials, const std::string& config = "") const {
    return job("  search: {command: [python3, " TRAIN_SOURCE_DIR
               "/tests/e2e/programs/searcher.py, " +
                   log() + ", " + mode + "]}\n  num_trials: " + std::to_string(trials) +
                   "\n  max_concurrent_trials: 1\n  parameters: {x: {uniform: [0, 100]}}\n",
               config);
  }
  std::string log() const { return cluster.path("told.jsonl"); }
  /// Return what the searcher was told under this key.
  std::vector<boost::json::object> told(const char* key) const {
    std::vector<boost::json::object> found;
    for (const auto& message : cluster.json_lines(read_file(log())))
      if (const auto* one = message.if_contains(key))
        found.push_back(one->is_object() ? one->as_object() : message);
    return found;
  }
};

TEST_F(Searchers, ProposeTheValues) {
  Process& sweep = cluster.train_run({"sweep", searched("plain", 3)});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_TRUE(
      contains(sweep.out(), "job: 3 trials (command), min of loss is the best, 1 at once\n"))
      << sweep.out();
  EXPECT_TRUE(contains(sweep.out(), "best: trial 0, loss 1.5: x=1\n")) << sweep.out();
  EXPECT_EQ(states(), Words(3, "finished"));
  for (int number = 0; number < 3; ++number)
    EXPECT_TRUE(contains(read_file(trial(number) + "/attempts/000/ranks/0000/stdout.log"),
                         "x is " + std::to_string(number + 1)));

  ASSERT_EQ(told("begin").size(), 1u);
  EXPECT_EQ(boost::json::serialize(told("begin")[0].at("parameters")),
            R"([{"name":"x","uniform":[0E0,1E2]}])");
  EXPECT_EQ(told("ask").size(), 3u);
  ASSERT_EQ(told("report").size(), 6u);
  EXPECT_EQ(boost::json::serialize(told("report")[1]), R"({"trial":0,"time":2E0,"value":1.5E0})");
  ASSERT_EQ(told("tell").size(), 3u);
  EXPECT_EQ(told("tell")[0].at("state"), "finished");
  EXPECT_EQ(read_file(folder() + "/searcher.log"), "I search\n");
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(Searchers, MayWantNoMoreTrials) {
  for (const char* mode : {"done", "leaves"}) {
    Process& sweep = cluster.train_run({"sweep", searched(mode, 9), "--name", mode});
    EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
    EXPECT_TRUE(contains(sweep.out(), "2 of 2 trials: 2 finished\n")) << sweep.out();
    EXPECT_EQ(cluster.run({"resume", cluster.run_dir(mode)}), 73) << "nothing is left to do";
  }
}

TEST_F(Searchers, StopTrials) {
  Process& sweep = cluster.train_run({"sweep", searched("prunes", 2, "epochs: 1000000")});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), Words(2, "stopped"));
  EXPECT_TRUE(contains(sweep.out(), "trial 0 stopped")) << sweep.out();
}

TEST_F(Searchers, ThatDieAreStartedAgain) {
  Process& sweep = cluster.train_run({"sweep", searched("dies", 3)});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), Words(3, "finished"));
  const auto begins = told("begin");
  ASSERT_EQ(begins.size(), 2u);
  const auto& known = begins[1].at("trials").as_array();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].at("state"), "finished");
  EXPECT_EQ(known[0].at("parameters").at("x"), 1);
  EXPECT_EQ(known[0].at("value"), 1.5);
  EXPECT_TRUE(contains(read_file(folder() + "/searcher.log"), "was killed by SIGKILL"));
}

TEST_F(Searchers, OfNoUseStopTheSweepInGoodOrder) {
  const std::map<std::string, std::string> wrong{
      {"text", "searcher python3 has written what is no JSON: trial one"},
      {"far", R"("x" has a value that the spec does not allow)"},
      {"other", "proposes a trial that it was not asked for"},
      {"useless", "searcher python3 was killed by SIGKILL"}};
  for (const auto& [mode, text] : wrong) {
    Process& sweep = cluster.train_run({"sweep", searched(mode, 3), "--name", mode});
    EXPECT_EQ(sweep.wait(), 69) << sweep.out() << sweep.err();
    EXPECT_TRUE(contains(sweep.err(), text)) << sweep.err();
    EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  }
  // Once it has been mended, the sweep goes on. The stored spec has its command.
  const std::string spec = cluster.run_dir("far") + "/spec.resolved.yaml";
  std::string yaml = read_file(spec);
  const std::size_t mode = yaml.find("far", yaml.find("searcher.py"));
  ASSERT_NE(mode, std::string::npos) << yaml;
  cluster.write(std::filesystem::relative(spec, cluster.dir()), yaml.replace(mode, 3, "plain"));
  EXPECT_EQ(cluster.run({"resume", cluster.run_dir("far")}), 0);
}

TEST_F(Searchers, DieWithTheSweep) {
  Process& sweep = cluster.train_run({"sweep", searched("deaf", 3)});
  ASSERT_TRUE(wait_until([&] { return cluster.processes("searcher.py").size() == 1; }));
  sweep.signal(SIGKILL);
  EXPECT_EQ(sweep.wait(), 137);
  EXPECT_TRUE(wait_until([&] { return cluster.processes("searcher.py").empty(); }));

  Process& again = cluster.train_run({"resume", folder()});
  ASSERT_TRUE(wait_until([&] { return cluster.processes("searcher.py").size() == 1; }));
  again.signal(SIGTERM);
  EXPECT_EQ(again.wait(), 75) << again.out() << again.err();
  EXPECT_TRUE(cluster.processes("searcher.py").empty()) << "it does not leave by itself";
}

TEST_F(Searchers, ThatCloseTheirInputAreStartedAgain) {
  Process& sweep = cluster.train_run({"sweep", searched("shut", 2)});
  EXPECT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
  EXPECT_EQ(states(), Words(2, "finished"));
  EXPECT_EQ(told("begin").size(), 2u);
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

}  // namespace
}  // namespace train::e2e
