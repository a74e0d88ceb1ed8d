#include "launcher/spec/job_spec_parser.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "launcher/spec/interpolate.h"
#include "tests/fakes/golden.h"

namespace train {
namespace {

SpecSource ada() {
  SpecSource source;
  source.path = "jobs/mnist.yaml";
  source.current_dir = "/home/ada/project";
  source.home = "/home/ada";
  source.timestamp = "20261121-101500";
  return source;
}

ParsedSpec parsed(const std::string& text, const SpecSource& source = ada()) {
  auto result = parse_job_spec_text(text, source);
  if (const auto* errors = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *errors;
    return {};
  }
  return std::get<ParsedSpec>(std::move(result));
}

std::string errors_of(const std::string& text, const SpecSource& source = ada()) {
  auto result = parse_job_spec_text(text, source);
  const auto* errors = std::get_if<std::string>(&result);
  return errors == nullptr ? "" : *errors;
}

TEST(JobSpecParser, FillsInEveryDefaultOfTheSmallestSpec) {
  const JobSpec spec = parsed("command: [./train]\n").spec;

  JobSpec expected;
  expected.command = {"./train"};
  expected.working_dir = "/home/ada/project/jobs";
  expected.run_config.name = "mnist-20261121-101500";
  expected.run_config.storage_path = "/home/ada/train_results";
  EXPECT_TRUE(spec == expected);
}

TEST(JobSpecParser, ReadsEveryKey) {
  const JobSpec spec = parsed(R"(
name: vit
command: [./vit, --verbose]
working_dir: ../bin
env: {OMP_NUM_THREADS: 4}
train_loop_config: {lr: 1.0e-3, epochs: 10}
backend: torch
backend_config: {collectives: nccl, timeout: 20m, deterministic: true}
scaling_config:
  num_workers: {min: 4, max: 8}
  use_gpu: true
  resources_per_worker: {CPU: 4, GPU: 2, memory: 16GiB, licence: 1}
  placement_strategy: STRICT_SPREAD
  cpu_limit: true
  pids_per_worker: 5000
run_config:
  storage_path: /nfs/runs
  failure_config: {max_failures: 3, max_start_failures: -1, stop_grace: 10s, orphan_timeout: 5m, node_suspect_after: 4s, node_dead_after: 12s, backoff: {initial: 2s, max: 2m}}
  checkpoint_config: {num_to_keep: 2, checkpoint_score_attribute: val_loss, checkpoint_score_order: min}
  stop: {epoch: 10, val_acc: 0.9}
  callbacks: [csv]
  log_level: warning
  umask: 027
  rlimits: {nofile: 65536, core: unlimited}
  user: ada
  keep_capabilities: true
  priority: -7
datasets:
  train: {format: parquet, path: data, columns: [image, label], shuffle: {seed: 7}}
  tiny: {format: items, items: [{x: 1}]}
dataset_config: {tiny: {split: true}}
metadata: {team: vision}
resume_from_checkpoint: /nfs/runs/old/checkpoints/checkpoint_000003
cluster: {nodes: ["gpu-1:7070"], token_file: ~/token}
)")
                           .spec;

  JobSpec expected;
  expected.command = {"./vit", "--verbose"};
  expected.working_dir = "/home/ada/project/bin";
  expected.env = {{"OMP_NUM_THREADS", "4"}};
  expected.train_loop_config = {{"lr", 0.001}, {"epochs", 10}};
  expected.collectives = "nccl";
  expected.collective_timeout = std::chrono::minutes(20);
  expected.deterministic = true;
  expected.scaling_config = {.num_workers = {4, 8},
                             .use_gpu = true,
                             .resources_per_worker = {.cpu = 4,
                                                      .gpu = 2,
                                                      .memory_bytes = 16ull << 30,
                                                      .custom = {{"licence", 1}}},
                             .placement_strategy = PlacementStrategy::StrictSpread,
                             .cpu_limit = true,
                             .pids_per_worker = 5000};
  expected.run_config.name = "vit";
  expected.run_config.storage_path = "/nfs/runs";
  expected.run_config.failure_config = {.max_failures = 3,
                                        .max_start_failures = -1,
                                        .stop_grace = seconds(10),
                                        .orphan_timeout = std::chrono::minutes(5),
                                        .node_suspect_after = seconds(4),
                                        .node_dead_after = seconds(12),
                                        .backoff = {seconds(2), std::chrono::minutes(2)}};
  expected.run_config.checkpoint_config = {
      .num_to_keep = 2, .score_attribute = "val_loss", .score_order = ScoreOrder::Min};
  expected.run_config.stop = {{"epoch", 10}, {"val_acc", 0.9}};
  expected.run_config.callbacks = {"csv"};
  expected.run_config.log_level = "warning";
  expected.run_config.umask = {027};
  expected.run_config.rlimits = {{"nofile", 65536}, {"core", kUnlimited}};
  expected.run_config.user = "ada";
  expected.run_config.keep_capabilities = true;
  expected.run_config.priority = -7;
  expected.datasets["train"] = {.format = DatasetFormat::Parquet,
                                .paths = {"/home/ada/project/jobs/data"},
                                .columns = {"image", "label"},
                                .split = true,
                                .shuffle = true,
                                .shuffle_seed = 7};
  expected.datasets["tiny"] = {
      .format = DatasetFormat::Items, .items = {boost::json::object{{"x", 1}}}, .split = true};
  expected.metadata = {{"team", "vision"}};
  expected.resume_from_checkpoint = "/nfs/runs/old/checkpoints/checkpoint_000003";
  expected.cluster = {.nodes = {"gpu-1:7070"}, .token_file = "/home/ada/token", .tls = ""};
  EXPECT_TRUE(spec == expected);
}

TEST(JobSpecParser, GivesOneGpuWithUseGpu) {
  EXPECT_EQ(parsed("command: [x]\nscaling_config: {use_gpu: true}\n")
                .spec.scaling_config.resources_per_worker.gpu,
            1);
}

TEST(JobSpecParser, GivesAStringToTheShellUntouched) {
  EXPECT_EQ(parsed("command: ./train --rank ${RANK} $${X}\n").spec.command,
            (std::vector<std::string>{"/bin/sh", "-c", "./train --rank ${RANK} $${X}"}));
}

TEST(JobSpecParser, SplitsOnlyTrainByDefault) {
  const JobSpec spec =
      parsed("command: [x]\ndatasets: {train: {path: a}, valid: {path: b}}\n").spec;

  EXPECT_TRUE(spec.datasets.at("train").split);
  EXPECT_FALSE(spec.datasets.at("valid").split);
}

TEST(JobSpecParser, MakesADefaultNameOfAnyFileName) {
  SpecSource source = ada();
  source.path = "/tmp/.my job (2).train.yaml";

  EXPECT_EQ(parsed("command: [x]\n", source).spec.run_config.name,
            "my-job--2-.train-20261121-101500");
}

TEST(JobSpecParser, TakesNodesOfTheVariableOnlyWhereTheSpecGivesNone) {
  SpecSource source = ada();
  source.environment["TRAINRUN_CLUSTER"] = "a:1,b:2";

  EXPECT_EQ(parsed("command: [x]\n", source).spec.cluster.nodes,
            (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(parsed("command: [x]\ncluster: {nodes: [\"c:3\"]}\n", source).spec.cluster.nodes,
            (std::vector<std::string>{"c:3"}));
  EXPECT_EQ(parsed("command: [x]\ncluster: {nodes: []}\n", source).spec.cluster.nodes,
            std::vector<std::string>{});
}

TEST(JobSpecParser, ChecksWhatNeedsNodesWithThoseOfTheVariable) {
  SpecSource source = ada();
  const std::string text =
      "command: [x]\nrun_config: {checkpoint_config: {replicas: 2}}\n"
      "scaling_config: {num_workers: 2}\n";
  source.environment["TRAINRUN_CLUSTER"] = "a:1,b:2";
  EXPECT_EQ(parsed(text, source).spec.cluster.nodes, (std::vector<std::string>{"a:1", "b:2"}));

  source.environment["TRAINRUN_CLUSTER"] = "a:1,a:1";
  const auto twice = parse_job_spec_text("command: [x]\n", source);
  ASSERT_TRUE(std::holds_alternative<std::string>(twice));
  EXPECT_NE(std::get<std::string>(twice).find("the variable TRAINRUN_CLUSTER names \"a:1\" again"),
            std::string::npos)
      << std::get<std::string>(twice);
}

TEST(JobSpecParser, NamesAFileThatIsNotThere) {
  SpecSource source = ada();
  source.current_dir = "/no/such/folder";
  source.path = "job.yaml";

  EXPECT_EQ(std::get<std::string>(parse_job_spec(source)),
            "job.yaml: error: cannot read the spec: /no/such/folder/job.yaml: No such file or "
            "directory\n");
}

TEST(JobSpecParser, NeedsAHomeOnlyForTheDefaultStorage) {
  SpecSource source = ada();
  source.home.clear();

  EXPECT_EQ(std::get<std::string>(parse_job_spec_text("command: [x]\n", source)),
            "error: run_config.storage_path is not given, and HOME is not set (name a folder)\n");
  EXPECT_EQ(
      parsed("command: [x]\nrun_config: {storage_path: /s}\n", source).spec.run_config.storage_path,
      "/s");
}

TEST(JobSpecParser, ReadsCarriageReturnsAndAByteOrderMark) {
  EXPECT_EQ(parsed("\xEF\xBB\xBF"
                   "command: [x]\r\nname: a\r\n")
                .spec.run_config.name,
            "a");
}

TEST(JobSpecParser, ShowsTheLineOfAMistakeWithoutTheSecretsInIt) {
  EXPECT_EQ(
      errors_of("command: [x]\n"
                "env: {DB_PASSWORD: hunter-of-env, RANK: 1}\n"
                "metadat: {api_token: hunter-of-a-misspelt-section, secret: [\"0.25\"]}\n"
                "name: /hunter-of-env\n"),
      "jobs/mnist.yaml:2:35: error: env.RANK is set by train-run for each worker\n"
      "  2 | env: {DB_PASSWORD: <redacted:DB_PASSWORD>, RANK: 1}\n"
      "    |                                            ^ remove it\n"
      "jobs/mnist.yaml:3:1: error: \"metadat\" is not a key of the spec\n"
      "  3 | metadat: {api_token: <redacted:api_token>, secret: [\"0.25\"]}\n"
      "    | ^ did you mean metadata?\n"
      "jobs/mnist.yaml:4:7: error: name is \"/<redacted:DB_PASSWORD>\", which cannot name a run\n"
      "  4 | name: /<redacted:DB_PASSWORD>\n"
      "    |       ^ use letters, digits, '.', '_' and '-', at most 128, a letter or digit "
      "first\n");
}

TEST(JobSpecParser, ShowsTheLinesOfOverridesWithoutTheSecretsInThem) {
  SpecSource source = ada();
  source.overrides = {"env={DB_PASSWORD: hunter-of-set, RANK: 1}"};

  EXPECT_EQ(errors_of("command: [x]\n", source),
            "--set:1:34: error: env.RANK is set by train-run for each worker\n"
            "  1 | env={DB_PASSWORD: <redacted:DB_PASSWORD>, RANK: 1}\n"
            "    |                                           ^ remove it\n");
}

TEST(JobSpecParser, HidesALiteralSecretWhereverThePrintedSpecRepeatsIt) {
  const ParsedSpec spec = parsed(
      "command: [x, --pw, hunter-of-print]\n"
      "env: {DB_PASSWORD: hunter-of-print, URL: db://hunter-of-print@host}\n"
      "working_dir: /hunter-of-print\n");

  EXPECT_EQ(spec.annotated_yaml.find("hunter-of-print"), std::string::npos) << spec.annotated_yaml;
  EXPECT_NE(spec.resolved_yaml.find("hunter-of-print"), std::string::npos);
}

TEST(JobSpecParser, ComputesDefaultsAnewWhereAResumeChangesWhatTheyFollowFrom) {
  const ParsedSpec first = parsed("command: [x]\n");
  SpecSource resumed = ada();
  resumed.path = "spec.resolved.yaml";
  resumed.overrides = {"run_config.failure_config.max_failures=5", "scaling_config.use_gpu=true"};

  const JobSpec spec = parsed(first.resolved_yaml, resumed).spec;

  EXPECT_EQ(spec.run_config.failure_config.max_start_failures, 5);
  EXPECT_EQ(spec.scaling_config.resources_per_worker.gpu, 1);
}

TEST(JobSpecParser, KeepsWhatTheUserWroteWhereAResumeChangesOtherKeys) {
  const ParsedSpec first = parsed(
      "command: [x]\n"
      "scaling_config: {use_gpu: true, resources_per_worker: {GPU: 2}}\n"
      "run_config: {failure_config: {max_failures: 3, max_start_failures: 1}}\n");
  SpecSource resumed = ada();
  resumed.path = "spec.resolved.yaml";
  resumed.overrides = {"run_config.failure_config.max_failures=5"};

  const JobSpec spec = parsed(first.resolved_yaml, resumed).spec;

  EXPECT_EQ(spec.run_config.failure_config.max_start_failures, 1);
  EXPECT_EQ(spec.scaling_config.resources_per_worker.gpu, 2);
}

TEST(JobSpecParser, HandsDatasetsToTheWorkersAsJson) {
  const JobSpec spec = parsed(R"(
command: [x]
datasets:
  train: {path: /d, columns: [a], shuffle: {seed: 3}}
  table: {format: csv, path: [/a, /b], schema: {x: float32}, delimiter: ";", newlines_in_values: true}
  pictures: {format: cifar, path: /c, labels: 2}
  ordered: {path: /e, shuffle: {mode: files, window: 1MiB}, lanes: 4, on_change: restart_epoch, filter: "a < 1", limit: 5}
  tiny: {format: items, items: [{x: 1}]}
  photos: {format: images, path: /p, size: [32, 48], mode: L, include_paths: true}
  mapped: {path: /m, map: [flip, {my_map: {x: 1}}], on_error: {rows: skip, rows_max: 5}}
dataset_config: {train: {balance: true}}
)")
                           .spec;

  EXPECT_EQ(datasets_json(spec), boost::json::parse(R"({
    "train": {"format": "auto", "path": ["/d"], "columns": ["a"], "schema": {}, "delimiter": "", "newlines_in_values": false, "labels": 1,
              "items": [], "split": true, "balance": true, "shuffle": true, "shuffle_seed": 3, "shuffle_mode": "window", "shuffle_window": 33554432, "lanes": 0,
              "preserve_order": false, "on_change": "fail", "filter": "", "limit": 0},
    "ordered": {"format": "auto", "path": ["/e"], "columns": [], "schema": {}, "delimiter": "", "newlines_in_values": false, "labels": 1,
              "items": [], "split": false, "shuffle": true, "shuffle_seed": 0, "shuffle_mode": "files", "shuffle_window": 1048576, "lanes": 4,
              "preserve_order": false, "on_change": "restart_epoch", "filter": "a < 1", "limit": 5},
    "table": {"format": "csv", "path": ["/a", "/b"], "columns": [], "schema": {"x": "float32"}, "delimiter": ";", "newlines_in_values": true,
              "labels": 1, "items": [], "split": false, "shuffle": false, "shuffle_seed": 0, "shuffle_mode": "window", "shuffle_window": 33554432, "lanes": 0,
              "preserve_order": false, "on_change": "fail", "filter": "", "limit": 0},
    "pictures": {"format": "cifar", "path": ["/c"], "columns": [], "schema": {}, "delimiter": "", "newlines_in_values": false, "labels": 2,
                 "items": [], "split": false, "shuffle": false, "shuffle_seed": 0, "shuffle_mode": "window", "shuffle_window": 33554432, "lanes": 0,
              "preserve_order": false, "on_change": "fail", "filter": "", "limit": 0},
    "tiny": {"format": "items", "path": [], "columns": [], "schema": {}, "delimiter": "", "newlines_in_values": false, "labels": 1,
             "items": [{"x": 1}], "split": false, "shuffle": false, "shuffle_seed": 0, "shuffle_mode": "window", "shuffle_window": 33554432, "lanes": 0,
              "preserve_order": false, "on_change": "fail", "filter": "", "limit": 0},
    "photos": {"format": "images", "path": ["/p"], "columns": [], "schema": {}, "delimiter": "", "newlines_in_values": false, "labels": 1,
               "items": [], "split": false, "shuffle": false, "shuffle_seed": 0, "shuffle_mode": "window", "shuffle_window": 33554432, "lanes": 0,
               "preserve_order": false, "on_change": "fail", "filter": "", "limit": 0, "size": [32, 48], "mode": "L", "include_paths": true},
    "mapped": {"format": "auto", "path": ["/m"], "columns": [], "schema": {}, "delimiter": "", "newlines_in_values": false, "labels": 1,
               "items": [], "split": false, "shuffle": false, "shuffle_seed": 0, "shuffle_mode": "window", "shuffle_window": 33554432, "lanes": 0,
               "preserve_order": false, "on_change": "fail", "filter": "", "limit": 0, "skip_rows_max": 5,
               "map": [{"name": "flip", "arguments": {}}, {"name": "my_map", "arguments": {"x": 1}}]}
  })")
                                     .as_object());
}

TEST(JobSpecParser, RefusesIntegersThatNoWorkerCouldRead) {
  const auto spec = [](const std::string& number) {
    return "command: [x]\ntrain_loop_config: {n: " + number + "}\n" +
           "datasets: {d: {path: /d, shuffle: {seed: " + number + "}}}\n";
  };

  EXPECT_EQ(errors_of(spec("9223372036854775807")), "");
  EXPECT_EQ(
      errors_of(spec("9223372036854775808")),
      "jobs/mnist.yaml:2:24: error: train_loop_config.n is 9223372036854775808, which does not fit "
      "64 bits with a sign\n"
      "  2 | train_loop_config: {n: 9223372036854775808}\n"
      "    |                        ^ write it in quotes, or as a float\n"
      "jobs/mnist.yaml:3:42: error: datasets.d.shuffle.seed is 9223372036854775808, more than "
      "9223372036854775807\n"
      "  3 | datasets: {d: {path: /d, shuffle: {seed: 9223372036854775808}}}\n"
      "    |                                          ^ lower it to 9223372036854775807 or less\n");
}

TEST(JobSpecParser, KeepsTheSpecReferenceTrue) {
  fakes::expect_golden(TRAIN_SOURCE_DIR "/docs/spec.md", job_spec_reference_markdown());
}

TEST(Interpolate, EscapesSoThatTheTextComesBack) {
  for (const std::string text :
       {"", "$", "${", "${X}", "$${X}", "$$${X}", "a$b", "${X", "$$", "{}"}) {
    EXPECT_EQ(spec::interpolate(spec::escape_interpolation(text), {}, 100).text, text);
  }
}

TEST(Interpolate, TakesTheDefaultForUnsetAndEmptyVariables) {
  const std::map<std::string, std::string> environment{{"SET", "value"}, {"EMPTY", ""}};

  EXPECT_EQ(
      spec::interpolate("${SET:-x} ${EMPTY:-y} ${UNSET:-z} [${EMPTY}] ${UNSET:-}", environment, 100)
          .text,
      "value y z [] ");
}

/// `resume` must be able to read what we accept, so the resolved spec has the limits of a spec.
TEST(JobSpecParser, RefusesASpecThatIsTooLargeOnceItIsWrittenOut) {
  std::string text =
      "command: [./train]\ntrain_loop_config:\n  a: \"" + std::string(300'000, 'x') + "\"\n";
  const std::string quotes = [] {  // each takes two bytes in the resolved spec
    std::string body;
    for (int i = 0; i < 400'000; ++i) body += '"';
    return "  b: '" + body + "'\n";
  }();
  EXPECT_EQ(errors_of(text), "");
  const std::string errors = errors_of(text + quotes);

  EXPECT_TRUE(errors.starts_with("error: the spec has 110")) << errors;
  EXPECT_TRUE(errors.ends_with(
      " bytes once aliases, variables and defaults are written out, more than 1048576 (keep data "
      "in files, and name them in the spec)\n"))
      << errors;
}

TEST(JobSpecParser, RefusesASpecWithTooManyValuesOnceItIsWrittenOut) {
  std::string text = "command: [./train]\ntrain_loop_config:\n  a:\n";
  for (int i = 0; i < 49'970; ++i) text += "  - 1\n";

  const std::string errors = errors_of(text);

  EXPECT_TRUE(
      errors.starts_with("error: resume could not read the spec that results from aliases, "
                         "variables and defaults:\n"))
      << errors.substr(0, 300);
  EXPECT_NE(errors.find(": error: the YAML holds more than 50000 values\n"), std::string::npos);
}

TEST(JobSpecParser, RefusesVariablesThatMultiply) {
  SpecSource source = ada();
  source.environment["A"] = std::string(100'000, 'x');
  std::string text = "command: [./train]\nenv:\n  B: ${A}${A}${A}${A}${A}\n";
  EXPECT_EQ(errors_of(text, source), "");
  const std::string errors = errors_of(text + "  C: ${A}${A}${A}${A}${A}${A}\n", source);

  EXPECT_TRUE(
      errors.starts_with("jobs/mnist.yaml:4:6: error: env.C takes more than 548576 bytes from "
                         "variables and defaults\n"))
      << errors.substr(0, 300);
}

/// Each row lacks each column of the first one.
TEST(JobSpecParser, StopsCountingMistakesAtSomePoint) {
  std::string text = "command: [./train]\ndatasets:\n  d:\n    format: items\n    items:\n    - {";
  for (int i = 0; i < 20'000; ++i) text += "c" + std::to_string(i) + ": 1, ";
  text += "}\n";
  for (int i = 0; i < 9'000; ++i) text += "    - {}\n";

  const std::string errors = errors_of(text);

  EXPECT_TRUE(errors.ends_with(" more errors\n")) << errors.size();
}

}  // namespace
}  // namespace train
