// Checks the JSON Schema with a real validator (PyPI jsonschema): the examples and valid golden
// specs pass, and wrong ones fail.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/spec/job_spec_parser.h"
#include "lib/yaml/reader.h"
#include "lib/yaml/scalar.h"

namespace train {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

/// A schema cannot find the errors of these specs: contradictions between keys, text that is not
/// YAML, other files.
constexpr std::array<std::string_view, 69> kBeyondSchema{"alias_bomb",
                                                         "backend_torchft",
                                                         "backend_torchft_too_few",
                                                         "roles_alone",
                                                         "num_workers_zero_alone",
                                                         "backend_too_many",
                                                         "backend_mpi_standby",
                                                         "alias_in_itself",
                                                         "backend_none_with_config",
                                                         "backoff_order",
                                                         "bad_indent",
                                                         "bracket_flood",
                                                         "cluster_variable",
                                                         "colon_in_text",
                                                         "command_blank",
                                                         "command_empty_program",
                                                         "control_character",
                                                         "deep_nesting",
                                                         "duplicate_key",
                                                         "empty_file",
                                                         "extends_error_in_base",
                                                         "extends_in_the_home",
                                                         "extends_missing",
                                                         "extends_of_another_home",
                                                         "extends_twice",
                                                         "free_values_bad",
                                                         "gpu_without_use_gpu",
                                                         "gpu_without_use_gpu_default",
                                                         "ingest_too_many",
                                                         "slurm_and_nodes",
                                                         "discovery_bad",
                                                         "discovery_twice",
                                                         "slurm_off",
                                                         "ssh_bad",
                                                         "interpolated_secret",
                                                         "interpolation_syntax",
                                                         "interpolation_unset",
                                                         "items_bad",
                                                         "key_is_list",
                                                         "long_line",
                                                         "merge_of_text",
                                                         "metadata_data",
                                                         "min_more_than_max",
                                                         "names_differ",
                                                         "nccl_without_gpu",
                                                         "not_utf8",
                                                         "nul_escape",
                                                         "replicas_in_s3",
                                                         "selectors_and_workers",
                                                         "replicas_nowhere",
                                                         "set_contradicts",
                                                         "set_min_over_number",
                                                         "set_wrong",
                                                         "split_twice",
                                                         "suspect_after_dead",
                                                         "sweep_bad_mutate",
                                                         "sweep_grid_bad",
                                                         "sweep_grid_too_large",
                                                         "tab_indent",
                                                         "tag",
                                                         "token_and_tls",
                                                         "two_documents",
                                                         "unclosed_list",
                                                         "unclosed_map",
                                                         "unclosed_quote",
                                                         "undefined_alias",
                                                         "unknown_token",
                                                         "use_gpu_without_gpu",
                                                         "workers_per_node_bad"};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

json::value to_json(const yaml::Node& node) {
  switch (node.kind) {
    case yaml::Node::Kind::Null:
      return nullptr;
    case yaml::Node::Kind::Sequence: {
      json::array array;
      for (const yaml::Node* item : node.items) array.push_back(to_json(*item));
      return array;
    }
    case yaml::Node::Kind::Map: {
      json::object object;
      for (const auto& entry : node.entries) object[entry.key->text] = to_json(*entry.value);
      return object;
    }
    case yaml::Node::Kind::Scalar:
      break;
  }
  if (!node.quoted) {
    if (const auto value = yaml::core_bool(node.text)) return *value;
    if (const auto integer = yaml::core_integer(node.text); integer && integer->as_int64())
      return *integer->as_int64();
    if (const auto integer = yaml::core_integer(node.text); integer && !integer->too_large)
      return integer->magnitude;
    if (const auto number = yaml::core_number(node.text)) return *number;
  }
  return json::string(node.text);
}

/// Return the file as an editor's YAML reader sees it.
json::value instance(const fs::path& path) {
  yaml::Tree tree;
  yaml::Diagnostics diagnostics;
  const yaml::Node* root = tree.parse(tree.add_source(path.string(), read_file(path)), diagnostics);
  if (root == nullptr) ADD_FAILURE() << diagnostics.error_text();
  return root == nullptr ? json::value() : to_json(*root);
}

json::array all_cases() {
  json::array cases;
  const fs::path root = TRAIN_SOURCE_DIR;
  for (const auto& entry : fs::directory_iterator(root / "tests/golden/spec")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = entry.path().stem().string();
    if (std::find(kBeyondSchema.begin(), kBeyondSchema.end(), name) != kBeyondSchema.end())
      continue;
    cases.push_back({{"name", name},
                     {"valid", name.starts_with("valid_")},
                     {"instance", instance(entry.path())}});
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / "examples")) {
    if (entry.path().filename() != "job.yaml") continue;
    cases.push_back(
        {{"name", entry.path().string()}, {"valid", true}, {"instance", instance(entry.path())}});
  }
  return cases;
}

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.output.append(buffer.data(), got);
  outcome.status = ::pclose(pipe);
  return outcome;
}

TEST(JobSpecSchema, AgreesWithTheParserInARealValidator) {
  const std::string python = TRAIN_DEPS_DIR "/tools-venv-5/bin/python";
  if (!fs::exists(python))
    GTEST_SKIP() << python << " is missing: run packaging/deps/install.sh test";
  const fs::path folder = fs::temp_directory_path() / ("schema_test." + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "schema.json") << job_spec_schema_json();
  std::ofstream(folder / "cases.json") << json::serialize(all_cases());

  const Outcome outcome =
      run(python + " " TRAIN_SOURCE_DIR "/tests/unit/launcher_spec/validate_schema.py " +
          (folder / "schema.json").string() + " " + (folder / "cases.json").string());

  EXPECT_EQ(outcome.status, 0) << outcome.output;
  fs::remove_all(folder);
}

/// The parser, too, must accept what users run.
TEST(JobSpecSchema, ExamplesParse) {
  int found = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(TRAIN_SOURCE_DIR) / "examples")) {
    if (entry.path().extension() != ".yaml") continue;
    ++found;
    SpecSource source;
    source.path = entry.path().string();
    source.home = "/home/ada";

    const auto result = parse_job_spec(source);

    if (const auto* errors = std::get_if<std::string>(&result)) ADD_FAILURE() << *errors;
  }
  EXPECT_GE(found, 7);
}

}  // namespace
}  // namespace train
