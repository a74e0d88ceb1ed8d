#include "sdk/trainer/job_words.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "sdk/trainer/run_folder.h"

namespace train::trainer {
namespace {

/// Return the path by which workers find this program: in a job that ships its code, relative to
/// working_dir if it lies there.
std::string on_nodes(const std::filesystem::path& program, const Dict& spec) {
  const auto ship = spec.find("ship");
  if (ship == spec.end() || ship->second == Value(false)) return program.string();
  std::error_code ec;
  const auto given = text_of(spec, "working_dir");
  const auto root = std::filesystem::weakly_canonical(given ? *given : ".", ec);
  const auto relative = program.lexically_relative(root);
  const bool inside = !relative.empty() && *relative.begin() != "..";
  return inside && !ec ? "./" + relative.string() : program.string();
}

}  // namespace

bool in_worker() {
  return std::getenv("TRAINRUN_SOCKET") != nullptr || std::getenv("TRAINRUN_SOLO_DIR") != nullptr;
}

std::string program_of(const TrainerOptions& options) {
  if (!options.program.empty()) return options.program;
  const char* named = std::getenv("TRAINRUN_PROGRAM");
  return named != nullptr && *named != '\0' ? named : "train-run";
}

std::vector<std::string> set_words(const Dict& values) {
  std::vector<std::string> words;
  for (const auto& [key, value] : values)
    words.insert(words.end(), {"--set", key + "=" + to_json(value)});
  return words;
}

void add_options(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(std::find(words.begin(), words.end(), "--"), more.begin(), more.end());
}

Dict with_own_command(Dict spec, int argc, char** argv) {
  std::error_code ec;
  List command{Value(on_nodes(std::filesystem::read_symlink("/proc/self/exe", ec), spec))};
  for (int i = 1; i < argc; ++i) command.emplace_back(argv[i]);
  spec["command"] = std::move(command);
  return spec;
}

}  // namespace train::trainer
