// tests/golden/spec has the exact text of every spec error: <case>.yaml with <case>.err or, for a
// valid spec, <case>.out (warnings, then the annotated YAML). Leading lines "# --set k=v" and "#
// env K=V" of a case are its overrides and environment. UPDATE_GOLDEN=1 rewrites the expected
// files: review the difference by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/spec/job_spec_parser.h"
#include "tests/fakes/golden.h"

namespace train {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(TRAIN_SOURCE_DIR) / "tests/golden/spec";

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

SpecSource source_of(const std::string& name, const std::string& text) {
  SpecSource source;
  source.path = name + ".yaml";
  source.current_dir = kFolder.string();
  source.home = "/home/ada";
  source.timestamp = "20261121-101500";
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("# --set ")) source.overrides.push_back(line.substr(8));
    if (line.starts_with("# env ")) {
      const std::size_t equals = line.find('=');
      source.environment[line.substr(6, equals - 6)] = line.substr(equals + 1);
    }
  }
  return source;
}

std::string without_folder(std::string text) {
  const std::string folder = kFolder.string();
  for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder)) {
    text.replace(at, folder.size(), "/golden");
  }
  return text;
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenSpec : public testing::TestWithParam<std::string> {};

TEST_P(GoldenSpec, SaysExactlyWhatItsFileExpects) {
  const std::string text = read_file(kFolder / (GetParam() + ".yaml"));
  const SpecSource source = source_of(GetParam(), text);

  const auto result = parse_job_spec(source);

  if (const auto* errors = std::get_if<std::string>(&result)) {
    EXPECT_FALSE(GetParam().starts_with("valid_")) << *errors;
    fakes::expect_golden(kFolder / (GetParam() + ".err"), without_folder(*errors));
    return;
  }
  EXPECT_TRUE(GetParam().starts_with("valid_")) << "this wrong spec was accepted";
  const auto& parsed = std::get<ParsedSpec>(result);
  std::string found;
  for (const std::string& warning : parsed.warnings) found += warning;
  found += parsed.annotated_yaml;
  fakes::expect_golden(kFolder / (GetParam() + ".out"), without_folder(found));
}

TEST_P(GoldenSpec, ParsesItsResolvedYamlBackToTheSameSpec) {
  if (!GetParam().starts_with("valid_")) return;
  const std::string text = read_file(kFolder / (GetParam() + ".yaml"));
  const auto first = std::get<ParsedSpec>(parse_job_spec(source_of(GetParam(), text)));

  SpecSource elsewhere;
  elsewhere.path = "spec.resolved.yaml";
  elsewhere.current_dir = "/runs/x";
  elsewhere.environment = {{"TRAINRUN_CLUSTER", "other:1"}};
  const auto again = parse_job_spec_text(first.resolved_yaml, elsewhere);

  ASSERT_TRUE(std::holds_alternative<ParsedSpec>(again))
      << std::get<std::string>(again) << first.resolved_yaml;
  EXPECT_TRUE(std::get<ParsedSpec>(again).spec == first.spec) << first.resolved_yaml;
  EXPECT_EQ(std::get<ParsedSpec>(again).resolved_yaml, first.resolved_yaml);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSpec, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace train
