// The first spec that `train-run init` writes.
#include "launcher/spec/starter_spec.h"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

namespace train {
namespace {

ParsedSpec parsed(const std::string& text) {
  SpecSource source;
  source.path = "job.yaml";
  source.current_dir = "/home/ada/project";
  source.home = "/home/ada";
  auto result = parse_job_spec_text(text, source);
  if (const auto* errors = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *errors << text;
    return {};
  }
  return std::get<ParsedSpec>(std::move(result));
}

/// Return the spec with everything that is commented out.
std::string uncommented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    out += std::regex_replace(line, std::regex("^( *)# ([a-z_]+: )"), "$1$2") + "\n";
  return out;
}

TEST(StarterSpec, IsAcceptedAndSaysWhatItWasGiven) {
  const StarterSpec starter{
      .command = {"./train", "a b", "${HOME}", ""}, .num_workers = 3, .use_gpu = true};
  const ParsedSpec spec = parsed(starter_spec(starter));

  EXPECT_EQ(spec.spec.command, starter.command);
  EXPECT_EQ(spec.spec.scaling_config.num_workers, (WorkerCount{3, 3}));
  EXPECT_TRUE(spec.spec.scaling_config.use_gpu);
  EXPECT_TRUE(spec.warnings.empty());
}

TEST(StarterSpec, WhatIsCommentedOutIsRightAsWell) {
  const std::string text = starter_spec({});
  const std::string all = uncommented(text);

  EXPECT_EQ(parsed(text).spec.command, (std::vector<std::string>{"./train"}));
  const ParsedSpec spec = parsed(all);
  EXPECT_EQ(all.find("# name: "), std::string::npos) << all;
  EXPECT_EQ(spec.spec.run_config.name, "my-run");
  EXPECT_EQ(spec.spec.cluster.nodes.size(), 2u);
  EXPECT_TRUE(spec.warnings.empty());
}

TEST(StarterSpec, TakesFurtherValuesAtTheirPlaces) {
  const StarterSpec starter{
      .command = {"python3", "-u", "train.py"},
      .python = true,
      .values = {"scaling_config.num_workers=4", "scaling_config.resources_per_worker.CPU=0",
                 "run_config.failure_config.max_failures=0", "env.ROLE_NAME=trainer",
                 "env.A=\"b c\"", "scaling_config.workers_per_node=2", "cluster.nodes=[]"},
      .made_from = "torchrun --role\ntrainer # train.py"};
  const std::string text = starter_spec(starter);
  const JobSpec spec = parsed(text).spec;

  EXPECT_EQ(spec.scaling_config.num_workers, (WorkerCount{4, 4}));
  EXPECT_EQ(spec.scaling_config.resources_per_worker.cpu, 0);
  EXPECT_EQ(spec.scaling_config.workers_per_node, 2);
  EXPECT_EQ(spec.run_config.failure_config.max_failures, 0);
  EXPECT_EQ(spec.env, (std::map<std::string, std::string>{{"ROLE_NAME", "trainer"}, {"A", "b c"}}));
  parsed(uncommented(text));
}

}  // namespace
}  // namespace train
