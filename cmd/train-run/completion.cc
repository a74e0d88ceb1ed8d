#include "cmd/train-run/completion.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "launcher/cluster/run/run_registry.h"
#include "launcher/spec/fields.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/base/store_url.h"
#include "lib/base/terminal_text.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kNamesMax = 1000;
constexpr unsigned kSecondsMax = 3;

enum class Paths { None, Files, Folders };

/// What may stand at the cursor.
class Candidates {
 public:
  explicit Candidates(std::string typed) : typed_(std::move(typed)) {}

  const std::string& typed() const { return typed_; }
  /// Add a word if it begins with what was typed. Of a description, only the first line counts.
  void add(const std::string& word, std::string_view description = "") {
    if (word.starts_with(typed_))
      words_.try_emplace(word, description.substr(0, description.find('\n')));
  }
  void add_paths(Paths paths) { paths_ = std::max(paths_, paths); }

  /// Print all, each word after `prefix`.
  void print(const std::string& prefix = "") const {
    for (const auto& [word, description] : words_) {
      print_out("{}{}", prefix, word);
      if (!description.empty()) print_out("\t{}", description);
      print_out("\n");
    }
    if (paths_ == Paths::Files) print_out(":files\n");
    if (paths_ == Paths::Folders) print_out(":folders\n");
  }

 private:
  const std::string typed_;
  std::map<std::string, std::string> words_;
  Paths paths_ = Paths::None;
};

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// Return the words that the option accepts, if it accepts only some.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();  // "TEXT:{text,json}"
  const auto begin = type.find('{'), end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

/// What the words before the cursor say.
struct Line {
  const CLI::App* command = nullptr;
  std::map<const CLI::Option*, std::string> given = {};  // option → its last value
  std::vector<std::string> positionals = {};
  const CLI::Option* waiting = nullptr;  // the option whose value stands at the cursor
  bool only_positionals = false;         // after "--"
};

const CLI::App* subcommand_of(const CLI::App& app, const std::string& name) {
  const auto named = [&](const CLI::App* command) { return command->get_name() == name; };
  const auto found = app.get_subcommands(named);
  return found.empty() ? nullptr : found.front();
}

Line read_line(const CLI::App& app, const std::vector<std::string>& before) {
  Line line{.command = &app};
  const CLI::App* run = subcommand_of(app, "run");  // train-run -n 4 job.yaml
  for (const std::string& word : before) {
    if (line.waiting != nullptr) {
      line.given[std::exchange(line.waiting, nullptr)] = word;
    } else if (!line.only_positionals && word == "--") {
      line.only_positionals = true;
    } else if (!line.only_positionals && word.size() > 1 && word[0] == '-') {
      const auto equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const CLI::Option* option = line.command->get_option_no_throw(name);
      if (option == nullptr && line.command == &app) {
        option = run->get_option_no_throw(name);
        if (option != nullptr) line.command = run;
      }
      if (option == nullptr) continue;
      line.given[option] = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (equals == std::string::npos && takes_value(*option)) line.waiting = option;
    } else if (const CLI::App* next =
                   line.positionals.empty() ? subcommand_of(*line.command, word) : nullptr) {
      line.command = next;
    } else {
      if (line.command == &app) line.command = run;
      line.positionals.push_back(word);
    }
  }
  return line;
}

std::string value_of(const Line& line, const std::string& name) {
  for (const auto& [option, value] : line.given)
    if (option->check_name(name)) return value;
  return "";
}

// ---- values

/// Add the keys of the spec, one level at a time, and the values of those that have only some.
void add_spec_keys(Candidates& out) {
  const std::string& typed = out.typed();
  const auto equals = typed.find('=');
  for (const spec::Field& field : spec::fields()) {
    const std::string path(field.path);
    if (field.kind == spec::Kind::Extends) continue;
    if (equals != std::string::npos) {
      if (path != typed.substr(0, equals)) continue;
      for (const std::string_view choice : field.choices) out.add(path + "=" + std::string(choice));
      if (field.kind == spec::Kind::Boolean)
        for (const char* value : {"true", "false"}) out.add(path + "=" + value);
    } else if (path.starts_with(typed) && path.find('*') == std::string::npos &&
               path.find('.', typed.size()) == std::string::npos) {
      const bool inner = field.kind == spec::Kind::Section || field.kind == spec::Kind::Entries;
      out.add(path + (inner ? "." : "="), field.what.substr(0, field.what.find(". ")));
    }
  }
}

/// Add the addresses of nodes that this user has named before, after those that the list has.
void add_hosts(const Line& line, Candidates& out) {
  const std::string& typed = out.typed();
  const std::string list = typed.substr(0, typed.rfind(',') + 1);  // "" if there is no comma
  std::vector<std::string> known;
  if (const char* hosts = std::getenv("TRAINRUN_HOSTS"); hosts != nullptr)
    known = CLI::detail::split(hosts, ',');
  std::string path = value_of(line, "--hosts-file");
  if (const char* file = std::getenv("TRAINRUN_HOSTS_FILE"); path.empty() && file != nullptr)
    path = file;
  std::ifstream file(path);
  for (std::string host; known.size() < kNamesMax && std::getline(file, host);) {
    host = host.substr(0, host.find('#'));
    known.push_back(CLI::detail::trim(host));
  }
  for (const std::string& host : known)
    if (!host.empty() && ("," + list).find("," + host + ",") == std::string::npos)
      out.add(list + host);
}

std::string storage_of(const Line& line) {
  const std::string given = value_of(line, "--storage-path");
  return given.empty() ? home_folder() + "/train_results" : given;
}

void add_runs(const Line& line, Candidates& out) {
  for (const std::string& name : registered_runs(kNamesMax)) out.add(name);
  std::error_code failed;
  std::size_t looked_at = 0;
  for (fs::directory_iterator entry(storage_of(line), failed), end;
       !failed && entry != end && looked_at < kNamesMax; entry.increment(failed), ++looked_at) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (check_run_name(name) && fs::exists(RunFolder(entry->path()).run_json(), ignored))
      out.add(name);
  }
  out.add_paths(Paths::Folders);
}

void add_checkpoints(const Line& line, Candidates& out) {
  out.add("latest");
  out.add("best");
  if (line.positionals.empty() || is_object_url(line.positionals[0])) return;
  const std::string& run = line.positionals[0];
  for (const fs::path& folder : {fs::path(run), fs::path(storage_of(line)) / run}) {
    std::error_code failed;
    std::size_t looked_at = 0;
    for (fs::directory_iterator entry(folder / "checkpoints", failed), end;
         !failed && entry != end && looked_at < kNamesMax; entry.increment(failed), ++looked_at) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with("checkpoint_")) out.add(name);
    }
  }
}

void add_values(const Line& line, const CLI::Option& option, Candidates& out) {
  for (const std::string& choice : choices_of(option)) out.add(choice);
  const std::string& name = option.get_single_name();
  if (name == "set") return add_spec_keys(out);
  if (name == "hosts") return add_hosts(line, out);
  if (name == "member") {
    for (const char* source : {"dns:", "hosts:", "slurm"}) out.add(source);
    return;
  }
  if (name == "runtime-dir" || name.starts_with("storage") || name == "tls")
    return out.add_paths(Paths::Folders);
  if (name.ends_with("-file") || name == "o" || name == "archive" || name.starts_with("tls-"))
    out.add_paths(Paths::Files);
}

// ---- words

void add_options(const Line& line, Candidates& out) {
  for (const CLI::Option* option : line.command->get_options()) {
    if (option->get_group().empty() || option->get_positional()) continue;
    const bool again = option->get_expected_max() > 1;
    if (line.given.contains(option) && !again) continue;
    for (const std::string& name : option->get_lnames())
      out.add("--" + name, option->get_description());
    if (option->get_lnames().empty())
      for (const std::string& name : option->get_snames())
        out.add("-" + name, option->get_description());
  }
}

void add_positional(const Line& line, Candidates& out) {
  if (line.only_positionals) return out.add_paths(Paths::Files);  // a program, and its arguments
  std::vector<const CLI::Option*> all =
      line.command->get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (all.empty()) return;
  const CLI::Option& option = *all[std::min(line.positionals.size(), all.size() - 1)];
  const bool full = line.positionals.size() >= all.size() && option.get_expected_max() == 1;
  if (full) return;
  const std::string& name = option.get_single_name();
  for (const std::string& choice : choices_of(option)) out.add(choice);
  if (name == "run") return add_runs(line, out);
  if (name == "checkpoint") return add_checkpoints(line, out);
  out.add_paths(name == "dir" ? Paths::Folders : Paths::Files);
}

void add_commands(const CLI::App& command, Candidates& out) {
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    if (!one->get_group().empty()) out.add(one->get_name(), one->get_description());
}

}  // namespace

int complete(const CLI::App& app, const std::vector<std::string>& words) {
  ::alarm(kSecondsMax);
  const std::string typed = words.empty() ? "" : words.back();
  const Line line = read_line(app, {words.begin(), words.end() - (words.empty() ? 0 : 1)});
  Candidates out(typed);
  if (line.command == nullptr) return 0;
  if (line.waiting != nullptr) {
    add_values(line, *line.waiting, out);
  } else if (!line.only_positionals && typed.starts_with("--") && typed.find('=') != typed.npos) {
    const auto value = typed.find('=') + 1;
    const CLI::Option* option = line.command->get_option_no_throw(typed.substr(0, value - 1));
    if (option == nullptr) return 0;
    Candidates values(typed.substr(value));
    add_values(line, *option, values);
    values.print(typed.substr(0, value));
    return finish_output(0);
  } else if (!line.only_positionals && typed.starts_with('-')) {
    add_options(line, out);
    if (line.command == &app) add_options({.command = subcommand_of(app, "run")}, out);
  } else {
    if (line.positionals.empty()) add_commands(*line.command, out);
    if (line.command == &app)
      out.add_paths(Paths::Files);  // train-run job.yaml
    else
      add_positional(line, out);
  }
  out.print();
  return finish_output(0);
}

}  // namespace train
