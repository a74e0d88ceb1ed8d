// A sweep of sdk_worker on one machine, for tests of train-run sweep (docs/sweep.md).
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace train::e2e {

using Words = std::vector<std::string>;

class Sweep : public testing::Test {
 protected:
  /// Write a job of sdk_worker whose loss is x. `sweep` are lines of that section, `config` members
  /// of train_loop_config.
  std::string job(const std::string& sweep, const std::string& config = "",
                  const std::string& run_config = "", const std::string& cpu = "0") const {
    return cluster.job("job",
                       "command: [" + program("sdk_worker") +
                           "]\nscaling_config: {resources_per_worker: {CPU: " + cpu +
                           "}}\ntrain_loop_config: {mode: trial, " + config +
                           "}\nsweep:\n  metric: loss\n  time_attribute: epoch\n" + sweep,
                       run_config);
  }
  static std::string grid(int trials, int at_once) {
    std::string values;
    for (int i = 1; i <= trials; ++i) values += (i == 1 ? "" : ", ") + std::to_string(i);
    return "  search: grid\n  max_concurrent_trials: " + std::to_string(at_once) +
           "\n  parameters: {x: {choice: [" + values + "]}}\n";
  }
  std::string folder() const { return cluster.run_dir("job"); }
  std::string trial(int number) const {
    return folder() + "/trials/" + std::string(4 - std::to_string(number).size(), '0') +
           std::to_string(number);
  }
  boost::json::object status() {
    Process& asked = cluster.train_run({"status", folder(), "--output", "json"});
    EXPECT_EQ(asked.wait(), 0) << asked.err();
    const auto lines = cluster.json_lines(asked.out());
    return lines.size() == 1 ? lines[0] : boost::json::object{};
  }
  Words states() {
    Words states;
    const boost::json::object shown = status();
    if (!shown.contains("trials")) return states;
    for (const auto& trial : shown.at("trials").as_array())
      states.push_back(std::string(trial.at("state").as_string()));
    return states;
  }
  /// Return how often the trial has begun from its beginning, as its workers say.
  static int fresh_starts(const std::string& trial) {
    int starts = 0;
    std::error_code ec;
    for (const auto& attempt : std::filesystem::directory_iterator(trial + "/attempts", ec)) {
      const std::string out = read_file(attempt.path().string() + "/ranks/0000/stdout.log");
      for (std::size_t at = out.find("x is "); at != std::string::npos;
           at = out.find("x is ", at + 1))
        ++starts;
    }
    return starts;
  }
  Cluster cluster;
};

}  // namespace train::e2e
