// Reads run_config.callbacks: built-in writers, and programs that are told of the run.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/spec/kind_readers.h"
#include "launcher/spec/section_reader.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

constexpr std::string_view kPath = "run_config.callbacks";
constexpr std::string_view kExample = "[python3, -m, trainrun.callbacks, my:Notify]";
constexpr std::array<std::string_view, 1> kKeys{"command"};
constexpr std::size_t kProgramsMax = 16;

void read_program(Reading& reading, const Cursor& cursor,
                  std::vector<std::vector<std::string>>& programs) {
  std::vector<std::string> argv;
  bool given = false;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.key != kKeys[0]) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
      continue;
    }
    given = true;
    read_argv(reading, entry.value, kExample, argv);
  }
  if (!given) return cursor.error("has no command", fmt::format("write command: {}", kExample));
  if (argv.empty()) return;  // reported
  if (std::find(programs.begin(), programs.end(), argv) != programs.end())
    return cursor.error("names the same command again", "remove it");
  programs.push_back(std::move(argv));
}

/// Return whether the text is MODULE:CLASS, as Python has them, of at most 256 bytes.
bool is_class(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.size() > 256) return false;
  const auto is_path = [](std::string_view path) {
    return !path.empty() && path.front() != '.' && path.back() != '.' &&
           std::all_of(path.begin(), path.end(), [](char c) {
             return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '.';
           });
  };
  return is_path(text.substr(0, colon)) && is_path(text.substr(colon + 1));
}

}  // namespace

void read_callbacks(Reading& reading, const Cursor& cursor, const Field& field, RunConfig& config) {
  config.callbacks.clear();
  config.callback_commands.clear();
  for (const Cursor& item : cursor.items()) {
    if (item.node().is(Node::Kind::Map)) {
      read_program(reading, item, config.callback_commands);
      continue;
    }
    const auto index = item.choice(field.choices);
    if (!index) continue;
    const std::string word(field.choices[*index]);
    if (std::find(config.callbacks.begin(), config.callbacks.end(), word) != config.callbacks.end())
      item.error(fmt::format("names {} again", in_quotes(word)), "remove it");
    else
      config.callbacks.push_back(word);
  }
  if (config.callback_commands.size() > kProgramsMax)
    cursor.error(fmt::format("has {} commands, and may have {}", config.callback_commands.size(),
                             kProgramsMax),
                 "let one program do the work of several");
}

void read_callbacks_variable(Reading& reading, JobSpec& spec) {
  constexpr std::string_view kVariable = "TRAINRUN_CALLBACKS";
  const auto variable = reading.source.environment.find(std::string(kVariable));
  if (variable == reading.source.environment.end()) return;
  auto& programs = spec.run_config.callback_commands;
  for (std::string_view rest = variable->second; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (!is_class(name)) {
      reading.diagnostics.error(
          {},
          fmt::format("the variable {} names {}, which is no class", kVariable, in_quotes(name)),
          "write MODULE:CLASS, comma-separated");
      continue;
    }
    std::vector<std::string> argv{"python3", "-m", "trainrun.callbacks", std::string(name)};
    // A spec that is resumed has them already.
    if (std::find(programs.begin(), programs.end(), argv) != programs.end()) continue;
    programs.push_back(std::move(argv));
    Origin& origin = reading.origins[std::string(kPath)];
    if (origin.variable.find(kVariable) == std::string::npos)
      origin.variable += (origin.variable.empty() ? "" : ", ") + std::string(kVariable);
  }
  if (programs.size() > kProgramsMax)
    reading.diagnostics.error({},
                              fmt::format("{} has {} commands with those of the variable {}, and "
                                          "may have {}",
                                          kPath, programs.size(), kVariable, kProgramsMax),
                              "let one program do the work of several");
}

}  // namespace train::spec
