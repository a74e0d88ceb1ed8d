// Parses a job.yaml of any bytes. An accepted spec, written as spec.resolved.yaml, reads as the
// same spec on any machine. The value of a variable that names a secret appears nowhere.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "launcher/spec/job_spec_parser.h"

namespace {

using namespace train;

constexpr std::string_view kSecret = "s3cr3t-canary-of-the-fuzzer";

void require(bool holds) {
  if (!holds) std::abort();
}

SpecSource source_of(std::string_view overrides) {
  SpecSource source;
  source.path = "job.yaml";
  source.current_dir = "/work";
  source.home = "/home/ada";
  source.timestamp = "20261121-101500";
  source.environment = {{"A", "x"},
                        {"LONG", std::string(40'000, 'y')},
                        {"EMPTY", ""},
                        {"API_TOKEN", std::string(kSecret)}};
  while (!overrides.empty()) {
    const auto end = std::min(overrides.find('\n'), overrides.size());
    source.overrides.emplace_back(std::string(overrides.substr(0, end)));
    overrides.remove_prefix(std::min(end + 1, overrides.size()));
  }
  return source;
}

void check_resolved(const ParsedSpec& first) {
  SpecSource elsewhere;
  elsewhere.path = "spec.resolved.yaml";
  elsewhere.current_dir = "/runs/x";
  elsewhere.environment = {{"TRAINRUN_CLUSTER", "other:1"}};
  const auto again = parse_job_spec_text(first.resolved_yaml, elsewhere);
  const auto* parsed = std::get_if<ParsedSpec>(&again);
  require(parsed != nullptr && parsed->spec == first.spec);
  require(parsed->resolved_yaml == first.resolved_yaml);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.find("extends") != std::string_view::npos) return 0;  // it reads local files
  if (input.find(kSecret) != std::string_view::npos) return 0;    // found by comparisons
  const auto nul = input.find('\0');                              // before the NUL: lines of --set
  const std::string text(nul == std::string_view::npos ? input : input.substr(nul + 1));
  const auto overrides = nul == std::string_view::npos ? "" : input.substr(0, nul);

  const auto result = parse_job_spec_text(text, source_of(overrides));
  if (const auto* errors = std::get_if<std::string>(&result)) {
    require(!errors->empty() && errors->find(kSecret) == std::string::npos);
    return 0;
  }
  const auto& parsed = std::get<ParsedSpec>(result);
  require(parsed.resolved_yaml.find(kSecret) == std::string::npos);
  require(parsed.annotated_yaml.find(kSecret) == std::string::npos);
  check_resolved(parsed);
  return 0;
}
