#include "cmd/train-run/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "lib/yaml/nearest.h"

namespace train {

namespace {

bool takes_value(const CLI::App& command, const std::string& option) {
  const CLI::Option* known = command.get_option_no_throw(option);
  return known != nullptr && known->get_items_expected_min() > 0;
}

std::string did_you_mean(const std::string& word, const Words& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string_view near = yaml::nearest(word, known);
  return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

/// Return what is wrong about a word that looks like the name of a command.
std::string unknown_command(const CLI::App& app, const Words& words) {
  if (words.size() < 2 || words[0] != "run") return "";
  const std::string& word = words[1];
  const bool may_be_a_path = word.find_first_of("./-") != std::string::npos;
  if (may_be_a_path || ::access(word.c_str(), F_OK) == 0) return "";
  Words names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const std::string meant = did_you_mean(word, names);
  return meant.empty() ? "" : fmt::format("there is no command or file '{}': {}", word, meant);
}

/// Return what is wrong about an option that the command does not have, or about a second file of
/// `run`: arguments of the program stand behind "--".
std::string unknown_option(const CLI::App& app, const Words& words) {
  const CLI::App* command = &app;
  Words positionals;
  const auto of_program = [&] {
    const bool runs = command->get_name() == "run" || command->get_name() == "validate" ||
                      command->get_name() == "sweep";
    if (!runs || positionals.empty()) return std::string();
    const std::string& file = positionals.front();
    return file.ends_with(".py")
               ? fmt::format(
                     "to run a Python program, write train-run -n WORKERS -- python3 {} ...", file)
               : fmt::format("arguments of the program stand after --: train-run {} -- ...", file);
  };
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--") break;
    if (!word->starts_with("-") || word->size() < 2) {
      const auto named = [&](const CLI::App* one) { return one->get_name() == *word; };
      const auto below = command->get_subcommands(named);
      if (!below.empty()) {
        command = below.front();
      } else {
        if (const std::string hint = of_program(); !hint.empty())
          return fmt::format("'{}' is one word too many: {}", *word, hint);
        positionals.push_back(*word);
      }
      continue;
    }
    if (!word->starts_with("--")) {
      if (takes_value(*command, word->substr(0, 2)) && word->size() == 2 && word + 1 != words.end())
        ++word;
      continue;
    }
    const std::string name = word->substr(0, word->find('='));
    if (command->get_option_no_throw(name) != nullptr) {
      if (name == *word && takes_value(*command, name) && word + 1 != words.end()) ++word;
      continue;
    }
    Words names;
    for (const CLI::Option* option : command->get_options())
      for (const std::string& known : option->get_lnames())
        if (!option->get_group().empty()) names.push_back("--" + known);
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) hint = of_program();
    return fmt::format("{}has no option {}{}{}",
                       command == &app ? "train-run " : command->get_name() + " ", name,
                       hint.empty() ? "" : ": ", hint);
  }
  return "";
}

/// Return what is wrong if a command that consists of others is followed by a word that is none of
/// them; CLI11 would only ask for one.
std::string unknown_subcommand(const CLI::App& app, const Words& words) {
  if (words.size() < 2 || words[1].starts_with('-')) return "";
  const auto all = [](const CLI::App*) { return true; };
  Words names;
  for (const CLI::App* command : app.get_subcommands(all)) {
    if (command->get_name() != words[0]) continue;
    for (const CLI::App* one : command->get_subcommands(all)) names.push_back(one->get_name());
  }
  if (names.empty() || std::find(names.begin(), names.end(), words[1]) != names.end()) return "";
  const std::string meant = did_you_mean(words[1], names);
  return fmt::format(
      "{} has no command '{}': {}", words[0], words[1],
      meant.empty() ? fmt::format("write one of {}", fmt::join(names, ", ")) : meant);
}

}  // namespace

Words with_command(const CLI::App& app, const CLI::App& run, int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  bool of_run = !words.empty();
  for (auto word = words.begin(); word != words.end(); ++word) {
    of_run = *word != "-h" && *word != "--help" && *word != "--version";
    if (!of_run) break;
    if (*word != "--" && word->starts_with("-")) {
      if (takes_value(run, *word) && word + 1 != words.end()) ++word;
      continue;
    }
    const auto named = [&](const CLI::App* command) { return command->get_name() == *word; };
    of_run = app.get_subcommands(named).empty();
    break;
  }
  if (of_run) words.insert(words.begin(), "run");
  return words;
}

std::optional<Words> take_arguments(Words& words) {
  if (words.empty() || (words[0] != "run" && words[0] != "validate" && words[0] != "sweep"))
    return std::nullopt;
  const auto end = std::find(words.begin(), words.end(), "--");
  if (end == words.end()) return std::nullopt;
  Words arguments(end + 1, words.end());
  words.erase(end, words.end());
  return arguments;
}

Words take_words(Words& words, Words::iterator begin) {
  Words taken(begin, words.end());
  words.erase(begin, words.end());
  if (!taken.empty() && taken.front() == "--") taken.erase(taken.begin());
  return taken;
}

Words::iterator first_positional(const CLI::App& command, Words& words) {
  auto word = words.begin() + 1;
  while (word != words.end() && *word != "--" && word->starts_with('-'))
    word += takes_value(command, *word) && word + 1 != words.end() ? 2 : 1;
  return word;
}

std::string unknown_word(const CLI::App& app, const Words& words) {
  for (const auto& check : {unknown_command, unknown_option, unknown_subcommand})
    if (std::string wrong = check(app, words); !wrong.empty()) return wrong;
  return "";
}

bool has_option(const Words& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == name || word.starts_with(name + "=");
  });
}

}  // namespace train
