#include "sdk/client/environment.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

namespace train::sdk {
namespace {

constexpr std::string_view kSpecFlag = "--trainrun-spec=";

int int_variable(const Environment& env, const char* name, int fallback, int min, int max) {
  const char* text = env(name);
  if (text == nullptr) return fallback;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    throw Failure("invalid_argument", std::string(name) + "='" + text +
                                          "' is not a whole number from " + std::to_string(min) +
                                          " to " + std::to_string(max) +
                                          " (the launcher sets it; unset it to run by hand)");
  }
  return value;
}

Dict dict_member(const std::string& path, const std::string& key, const Value& value) {
  if (!value.is_dict() && !value.is_null())
    throw Failure("invalid_argument", path + ": '" + key + "' is not a dict");
  return value.is_null() ? Dict{} : value.as<Dict>();
}

}  // namespace

WorkerInfo info_from_environment(const Environment& env) {
  constexpr int kRanksMax = 1 << 20;
  WorkerInfo info;
  if (const char* role = env("ROLE_NAME")) info.role_name = role;
  if (env("RANK") == nullptr || env("WORLD_SIZE") == nullptr) return info;
  info.world_size = int_variable(env, "WORLD_SIZE", 1, 1, kRanksMax);
  info.rank = info.rank_of_all = int_variable(env, "RANK", 0, 0, info.world_size - 1);
  info.local_world_size = int_variable(env, "LOCAL_WORLD_SIZE", 1, 1, info.world_size);
  info.local_rank = int_variable(env, "LOCAL_RANK", 0, 0, info.local_world_size - 1);
  info.node_count = int_variable(env, "GROUP_WORLD_SIZE", 1, 1, info.world_size);
  info.node_rank = int_variable(env, "GROUP_RANK", 0, 0, info.node_count - 1);
  info.attempt =
      static_cast<std::uint32_t>(int_variable(env, "TORCHELASTIC_RESTART_COUNT", 0, 0, 1 << 30));
  info.master_port = int_variable(env, "MASTER_PORT", 0, 0, 65535);
  if (const char* address = env("MASTER_ADDR")) info.master_addr = address;
  if (const char* run = env("TORCHELASTIC_RUN_ID")) info.run_id = run;
  return info;
}

std::string spec_path(const std::vector<std::string>& arguments, const Environment& env) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument.starts_with(kSpecFlag)) return argument.substr(kSpecFlag.size());
  }
  const char* variable = env("TRAINRUN_SPEC");
  return variable == nullptr ? "" : variable;
}

void read_spec(const std::string& path, WorkerInfo& info) {
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    throw Failure("not_found", "cannot read the spec '" + path + "': " + std::strerror(errno) +
                                   " (--trainrun-spec and TRAINRUN_SPEC name a JSON file)");
  }
  Value spec;
  try {
    spec = parse_json(text.str());
  } catch (const Failure& why) {
    throw Failure(why.kind(), path + ": " + why.what());
  }
  for (const auto& [key, value] : dict_member(path, "the file", spec)) {
    if (key == "train_loop_config") {
      info.config = Config(dict_member(path, key, value));
    } else if (key == "metadata") {
      info.metadata = dict_member(path, key, value);
      if (info.metadata.count(kPositionsKey) != 0) {
        throw Failure("invalid_argument",
                      path +
                          ": 'metadata' has the key 'data', where checkpoints hold the "
                          "datasets' positions (use another key)");
      }
    } else if (key == "datasets") {
      info.datasets = dict_member(path, key, value);
    } else {
      throw Failure("invalid_argument", path + ": unknown key '" + key +
                                            "' (known: train_loop_config, metadata, datasets)");
    }
  }
}

std::vector<std::string> process_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

}  // namespace train::sdk
