#include "launcher/spec/job_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lib/yaml/writer.h"

namespace train {
namespace {

/// Return a number or an amount as it is, so that it keeps its type. Quote anything else: it must
/// not become a mapping or a list.
std::string plain(const std::string& value) {
  const bool amount = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '-' || c == '+';
  });
  return amount ? value : yaml::write_text(value);
}

std::string workers(const std::string& value) {
  const std::size_t colon = value.find(':');
  if (colon == std::string::npos) return plain(value);
  return fmt::format("{{min: {}, max: {}}}", plain(value.substr(0, colon)),
                     plain(value.substr(colon + 1)));
}

bool is_python(const std::string& program) {
  return std::filesystem::path(program).filename().string().starts_with("python");
}

}  // namespace

std::vector<SpecOverride> overrides_of(const JobFlags& flags, bool over_file) {
  std::vector<SpecOverride> overrides;
  const auto add = [&](const char* option, const char* key, const std::string& value) {
    overrides.emplace_back(fmt::format("{}={}", key, value), option);
  };
  constexpr const char* kClaim = "scaling_config.resources_per_worker.";
  const auto claim = [&](const char* option, const char* name, const std::string& value) {
    add(option, fmt::format("{}{}", kClaim, name).c_str(), plain(value));
  };
  if (flags.num_workers)
    add("--num-workers", "scaling_config.num_workers", workers(*flags.num_workers));
  if (flags.gpus) {
    add("--gpus", "scaling_config.use_gpu", *flags.gpus == "0" ? "false" : "true");
    claim("--gpus", "GPU", *flags.gpus);
  }
  if (flags.cpus) claim("--cpus", "CPU", *flags.cpus);
  if (flags.memory) claim("--memory", "memory", *flags.memory);
  if (flags.max_failures)
    add("--max-failures", "run_config.failure_config.max_failures", plain(*flags.max_failures));
  if (flags.priority) add("--priority", "run_config.priority", plain(*flags.priority));
  if (flags.name) add("--name", "run_config.name", yaml::write_text(*flags.name));
  if (flags.name && over_file) add("--name", "name", yaml::write_text(*flags.name));
  if (flags.storage) add("--storage", "run_config.storage_path", yaml::write_text(*flags.storage));
  return overrides;
}

std::string program_name(const std::vector<std::string>& command) {
  if (command.empty()) return "";
  const auto stem = [](const std::string& path) {
    return std::filesystem::path(path).stem().string();
  };
  if (!is_python(command.front())) return stem(command.front());
  for (auto word = command.begin() + 1; word != command.end(); ++word) {
    if (*word == "-m" && word + 1 != command.end()) return *(word + 1);
    if (*word == "-c") break;
    if ((*word == "-W" || *word == "-X") && word + 1 != command.end())
      ++word;  // they have a value
    else if (!word->starts_with('-'))
      return stem(*word);
  }
  return "python";
}

}  // namespace train
