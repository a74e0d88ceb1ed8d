// A spec made of the words of a command line.
#include "launcher/spec/job_flags.h"

#include <gtest/gtest.h>

namespace train {
namespace {

SpecSource here(std::vector<std::string> arguments) {
  SpecSource source;
  source.arguments = std::move(arguments);
  source.current_dir = "/home/ada/project";
  source.home = "/home/ada";
  source.timestamp = "20261121-101500";
  return source;
}

ParsedSpec parsed(const SpecSource& source) {
  auto result = parse_job_spec(source);
  if (const auto* errors = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *errors;
    return {};
  }
  return std::get<ParsedSpec>(std::move(result));
}

JobFlags all_flags() {
  return {.num_workers = "2:8",
          .gpus = "2",
          .cpus = "0.5",
          .memory = "16GiB",
          .max_failures = "-1",
          .priority = "-5",
          .name = "012",
          .storage = "s3://bucket/runs"};
}

void expect_all_flags(const JobSpec& spec) {
  EXPECT_EQ(spec.scaling_config.num_workers, (WorkerCount{2, 8}));
  EXPECT_TRUE(spec.scaling_config.use_gpu);
  EXPECT_EQ(spec.scaling_config.resources_per_worker.gpu, 2);
  EXPECT_EQ(spec.scaling_config.resources_per_worker.cpu, 0.5);
  EXPECT_EQ(spec.scaling_config.resources_per_worker.memory_bytes, 16ull << 30);
  EXPECT_EQ(spec.run_config.failure_config.max_failures, kUnlimited);
  EXPECT_EQ(spec.run_config.priority, -5);
  EXPECT_EQ(spec.run_config.name, "012");
  EXPECT_EQ(spec.run_config.storage_path, "s3://bucket/runs");
}

TEST(JobFlags, AProgramIsAWholeSpec) {
  const JobSpec spec = parsed(here({"./train", "--epochs", "3"})).spec;

  JobSpec expected;
  expected.command = {"./train", "--epochs", "3"};
  expected.working_dir = "/home/ada/project";
  expected.run_config.name = "train-20261121-101500";
  expected.run_config.storage_path = "/home/ada/train_results";
  EXPECT_TRUE(spec == expected);
}

TEST(JobFlags, StandForKeysOfTheSpec) {
  SpecSource source = here({"./train"});
  source.overrides = overrides_of(all_flags(), false);

  expect_all_flags(parsed(source).spec);
}

TEST(JobFlags, LieOverAFileThatSaysOtherwise) {
  SpecSource source = here({});
  source.path = "job.yaml";
  source.overrides = overrides_of(all_flags(), true);
  const auto result = parse_job_spec_text(
      "name: one\n"
      "command: [./train]\n"
      "scaling_config: {num_workers: 1, resources_per_worker: {CPU: 3, memory: 1GiB}}\n"
      "run_config: {storage_path: /other, failure_config: {max_failures: 7}}\n",
      source);

  ASSERT_TRUE(std::holds_alternative<ParsedSpec>(result)) << std::get<std::string>(result);
  expect_all_flags(std::get<ParsedSpec>(result).spec);
}

TEST(JobFlags, NoGpusTurnThoseOfAFileOff) {
  SpecSource source = here({});
  source.path = "job.yaml";
  JobFlags flags;
  flags.gpus = "0";
  source.overrides = overrides_of(flags, true);
  const auto result =
      parse_job_spec_text("command: [./train]\nscaling_config: {use_gpu: true}\n", source);

  ASSERT_TRUE(std::holds_alternative<ParsedSpec>(result)) << std::get<std::string>(result);
  EXPECT_FALSE(std::get<ParsedSpec>(result).spec.scaling_config.use_gpu);
}

TEST(JobFlags, ThePrintedSpecIsAcceptedAndMeansTheSame) {
  SpecSource source = here({"./train", "--text", "${HOME} $x \"quoted\"\n#", "", "0x1f", "a: b"});
  source.overrides = overrides_of(all_flags(), false);
  const ParsedSpec first = parsed(source);

  for (const std::string& printed : {first.annotated_yaml, first.resolved_yaml, first.text}) {
    SpecSource file;
    file.path = "printed.yaml";
    file.current_dir = "/elsewhere";
    const auto again = parse_job_spec_text(printed, file);

    ASSERT_TRUE(std::holds_alternative<ParsedSpec>(again)) << std::get<std::string>(again);
    EXPECT_TRUE(std::get<ParsedSpec>(again).spec == first.spec) << printed;
  }
}

TEST(JobFlags, ThePrintedSpecNamesTheOptionOfEachValue) {
  SpecSource source = here({"./train"});
  source.overrides = overrides_of(all_flags(), false);
  source.overrides.emplace_back("backend=none");

  const std::string printed = parsed(source).annotated_yaml;

  for (const char* line :
       {"command: [./train]  # --\n", "min: 2  # --num-workers\n", "max: 8  # --num-workers\n",
        "use_gpu: true  # --gpus\n", "CPU: 0.5  # --cpus\n", "memory: 16GiB  # --memory\n",
        "max_failures: -1  # --max-failures\n", "storage_path: \"s3://bucket/runs\"  # --storage\n",
        "backend: none  # --set\n"})
    EXPECT_NE(printed.find(line), std::string::npos) << line << "in\n" << printed;
}

TEST(JobFlags, WordsAfterTheDashesFollowTheCommandOfAFileUnchanged) {
  SpecSource source = here({"--epochs", "${EPOCHS}", ""});
  source.path = "job.yaml";
  const auto result = parse_job_spec_text("command: [./train, -v]\n", source);

  ASSERT_TRUE(std::holds_alternative<ParsedSpec>(result)) << std::get<std::string>(result);
  const ParsedSpec& spec = std::get<ParsedSpec>(result);
  EXPECT_EQ(spec.spec.command,
            (std::vector<std::string>{"./train", "-v", "--epochs", "${EPOCHS}", ""}));
  EXPECT_NE(spec.annotated_yaml.find("# job.yaml:1 and the words after --\n"), std::string::npos)
      << spec.annotated_yaml;
}

TEST(JobFlags, NoWordsAfterTheDashesChangeNothing) {
  SpecSource source = here({});
  source.path = "job.yaml";
  const auto result = parse_job_spec_text("command: ./train | tee log\n", source);

  ASSERT_TRUE(std::holds_alternative<ParsedSpec>(result)) << std::get<std::string>(result);
  EXPECT_EQ(std::get<ParsedSpec>(result).spec.command,
            (std::vector<std::string>{"/bin/sh", "-c", "./train | tee log"}));
}

TEST(JobFlags, TheRunIsCalledAsItsProgramIs) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table{
      {{"./train", "--lr", "1"}, "train"},
      {{"/opt/bin/train.real"}, "train"},
      {{"python3", "-u", "src/fit.py", "x.py"}, "fit"},
      {{"/usr/bin/python3.11", "-W", "ignore", "fit.py"}, "fit"},
      {{"python", "-m", "pkg.fit", "x"}, "pkg.fit"},
      {{"python3", "-c", "print()"}, "python"},
      {{"python3"}, "python"},
      {{}, ""}};
  for (const auto& [command, name] : table) EXPECT_EQ(program_name(command), name);
}

}  // namespace
}  // namespace train
