// A C++ driver that steers its training pass by pass: train::operate (docs/driver.md).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class Operators : public testing::Test {
 protected:
  /// Run operator_driver with these words, and return what it prints.
  std::string steer(const std::string& name, const std::string& how = "") {
    std::vector<std::string> words{program("operator_driver"), name};
    if (!how.empty()) words.push_back(how);
    Process& driver = cluster.start(words, {.env = {{"TRAINRUN_PROGRAM", built("train-run")},
                                                    {"OMP_NUM_THREADS", "1"},
                                                    {"RUNS", cluster.storage()}},
                                            .prefix = {},
                                            .cwd = cluster.path("")});
    EXPECT_EQ(driver.wait(std::chrono::minutes(4)), 0) << driver.out() << driver.err();
    return "\n" + driver.out();
  }
  std::size_t attempts(const std::string& name) const {
    return cluster.run_json(name).at("attempts").as_array().size();
  }
  Cluster cluster;
};

/// Return what follows this word in the driver's output, up to the end of the line.
std::string said(const std::string& out, const std::string& word) {
  const std::size_t at = out.find("\n" + word + " ");
  return at == out.npos ? "" : out.substr(at + 1, out.find('\n', at + 1) - at - 1);
}

TEST_F(Operators, TheDriverSaysWhatComesNextAndADeadWorkerCostsAPass) {
  const std::string whole = steer("whole");
  for (const char* line :
       {R"(train {"batch_count":4,"epoch":1,"num_samples":64})",
        R"(train {"batch_count":4,"epoch":3,"num_samples":64})", "steps 1\n",
        R"(timed ["mean_apply_s","mean_fwd_s","mean_grad_s","time_this_iter_s","time_total_s"])",
        "rank 0: std::runtime_error: a mistake of the operator",
        "rank 1: std::runtime_error: a mistake of the operator", "rates [0.25]\n", "passes [4,4]\n",
        "equal true\n", "trained true\n", "loaded true\n", "files true\n",
        "whole.saved is there already", R"(outcome "succeeded")"})
    EXPECT_TRUE(contains(whole, line)) << line << "\n" << whole;
  EXPECT_EQ(attempts("whole"), 3u) << "after an exception, the workers start again";

  const std::string killed = steer("killed", "die");
  EXPECT_EQ(attempts("killed"), 4u);
  EXPECT_NE(said(whole, "weights"), "");
  EXPECT_EQ(said(killed, "weights"), said(whole, "weights"));
  EXPECT_EQ(said(killed, "passes"), "passes [4,4]");
  EXPECT_EQ(said(killed, "accuracy"), said(whole, "accuracy"));
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Operators, WhatCannotBeDoneIsRefusedAndKillsNobody) {
  const std::string out = steer("bare", "bare");
  for (const char* line :
       {R"(train "invalid_argument: train: setup() has registered no data to train on")",
        R"(validate "invalid_argument: validate: setup() has registered no data to validate on")",
        "nowhere' is not a directory", "rates [0.25]\n", R"(outcome "succeeded")"})
    EXPECT_TRUE(contains(out, line)) << line << "\n" << out;
  EXPECT_EQ(attempts("bare"), 1u);
}

}  // namespace
}  // namespace train::e2e
