#include "launcher/torchrun/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "lib/yaml/nearest.h"

namespace train {
namespace {

enum class Kind { Text, Integer, Number, Flag };

struct Option {
  std::string_view name;
  std::string_view help;
  Kind kind = Kind::Text;
  std::string_view fallback = {};
  char letter = 0;
  bool variable = true;  // PET_NAME gives it, too
  bool ours = false;     // train-run's own: no abbreviation, no variable
};

// clang-format off
constexpr std::array kOptions{
    Option{"nnodes", "Nodes: a number, or MIN:MAX. More than one: the daemons that --hosts names", Kind::Text, "1:1"},
    Option{"nproc-per-node", "Workers of each node: a number, auto, gpu or cpu", Kind::Text, "1"},
    Option{"rdzv-backend", "static, c10d, etcd or etcd-v2; train-run needs none of them", Kind::Text, "static"},
    Option{"rdzv-endpoint", "Not needed: train-run chooses address and port"},
    Option{"rdzv-id", "TORCHELASTIC_RUN_ID of the workers", Kind::Text, "none"},
    Option{"rdzv-conf", "Not needed"},
    Option{"standalone", "Use this machine, whatever TRAINRUN_HOSTS and TRAINRUN_CLUSTER say", Kind::Flag},
    Option{"max-restarts", "How many failures the run survives", Kind::Integer, "0"},
    Option{"monitor-interval", "Not needed: train-run hears at once of a worker that ends", Kind::Number, "0.1"},
    Option{"start-method", "Not needed: workers are programs", Kind::Text, "spawn"},
    Option{"event-log-handler", "Only null: the run's events are in its events.jsonl", Kind::Text, "null"},
    Option{"role", "ROLE_NAME of the workers", Kind::Text, "default"},
    Option{"module", "The script is a module, as with python -m", Kind::Flag, {}, 'm'},
    Option{"no-python", "The script is a program", Kind::Flag},
    Option{"run-path", "Run the script by runpy.run_path", Kind::Flag},
    Option{"log-dir", "The folder of runs (as --storage)"},
    Option{"redirects", "Streams that only files get: 1 stdout, 2 stderr, 3 both; 0:1,1:3 by local rank", Kind::Text, "0", 'r'},
    Option{"tee", "Streams that the terminal gets all the same, with a prefix", Kind::Text, "0", 't'},
    Option{"local-ranks-filter", "Show only the output of these local ranks"},
    Option{"duplicate-stdout-filters", "Refused: train-run logs RUN --stream out --grep REGEX shows such lines"},
    Option{"duplicate-stderr-filters", "Refused: train-run logs RUN --stream err --grep REGEX shows such lines"},
    Option{"node-rank", "Only 0: train-run starts the workers of all nodes", Kind::Integer, "0"},
    Option{"master-addr", "Not needed: train-run chooses address and port", Kind::Text, "127.0.0.1"},
    Option{"master-port", "Not needed", Kind::Integer, "29500"},
    Option{"local-addr", "Not needed"},
    Option{"logs-specs", "Refused: the run's folder has all output", Kind::Text, {}, 0, false},
    Option{"numa-binding", "Bind workers to CPUs: node, socket, exclusive or core-complex", Kind::Text, {}, 0, false},
    Option{"signals-to-handle", "train-run handles SIGTERM, SIGINT, SIGHUP and SIGUSR1", Kind::Text, "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
    Option{"virtual-local-rank", "Each worker sees one GPU, and LOCAL_RANK is 0", Kind::Flag},
    Option{"log-line-prefix-template", "What stands before lines of --tee, also TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", Kind::Text, {}, 0, false, true},
    Option{"hosts", "Daemons, HOST:PORT,HOST:PORT", Kind::Text, {}, 0, false, true},
    Option{"hosts-file", "A file with a daemon HOST[:PORT] on each line", Kind::Text, {}, 0, false, true},
    Option{"token-file", "The cluster's shared secret", Kind::Text, {}, 0, false, true},
    Option{"tls", "The folder of your certificate, in place of a token", Kind::Text, {}, 0, false, true},
    Option{"gpus", "GPUs of each worker, instead of what --nproc-per-node and this machine say", Kind::Text, {}, 0, false, true},
    Option{"name", "The run's name", Kind::Text, {}, 0, false, true},
    Option{"storage", "The folder of runs, or its URL", Kind::Text, {}, 0, false, true},
    Option{"set", "KEY.PATH=VALUE: a value of the spec; may be repeated", Kind::Text, {}, 0, false, true},
    Option{"dry-run", "Print placement, command and environment of each rank, and stop", Kind::Flag, {}, 0, false, true},
    Option{"print-config", "Print the spec that the command line stands for, and stop", Kind::Flag, {}, 0, false, true},
    Option{"detach", "Run in the background; return once the run has begun", Kind::Flag, {}, 0, false, true},
};
// clang-format on

Error mistake(std::string what, std::string hint = {}) {
  return {Errc::InvalidArgument, "torchrun: " + std::move(what), std::move(hint)};
}

std::string dashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

const Option* option_named(std::string_view name) {
  const auto* found = std::find_if(kOptions.begin(), kOptions.end(),
                                   [&](const Option& o) { return o.name == name; });
  return found == kOptions.end() ? nullptr : found;
}

template <class T>
bool is_number(const std::string& text) {
  T number{};
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Result<Unit> check(const Option& option, const std::string& value, const std::string& said_by) {
  if (option.kind == Kind::Integer && !is_number<int>(value))
    return mistake(fmt::format("{} is '{}', not a whole number", said_by, value));
  if (option.kind == Kind::Number && !is_number<double>(value))
    return mistake(fmt::format("{} is '{}', not a number", said_by, value));
  return Unit{};
}

/// An option as a word gives it: --name, --name=value, -r, -r3, or the beginning of a long name.
struct Match {
  const Option* option = nullptr;
  std::optional<std::string> value = {};
};

Result<Match> match(const std::string& word) {
  if (!word.starts_with("--")) {
    const auto* found = std::find_if(kOptions.begin(), kOptions.end(), [&](const Option& option) {
      return option.letter != 0 && word[1] == option.letter;
    });
    if (found == kOptions.end() || (found->kind == Kind::Flag && word.size() > 2))
      return mistake(fmt::format("there is no option {}", word));
    if (word.size() == 2) return Match{found};
    return Match{found, word.substr(word[2] == '=' ? 3 : 2)};
  }
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string name = dashes(word.substr(2, equals - 2));
  const auto value = equals < word.size() ? std::optional(word.substr(equals + 1)) : std::nullopt;
  if (const Option* option = option_named(name)) return Match{option, value};
  std::vector<std::string_view> fitting, known;
  for (const Option& option : kOptions) {
    known.push_back(option.name);
    if (!option.ours && option.name.starts_with(name)) fitting.push_back(option.name);
  }
  if (fitting.size() == 1) return Match{option_named(fitting.front()), value};
  if (fitting.size() > 1)
    return mistake(fmt::format("--{} may mean --{}", name, fmt::join(fitting, " or --")));
  const std::string_view near = yaml::nearest(name, known);
  return mistake(fmt::format("there is no option --{}", name),
                 near.empty() ? "" : fmt::format("did you mean --{}?", near));
}

bool is_negative_number(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && is_number<double>(word.substr(1)) && word[1] != '+';
}

/// Return whether argparse takes the word for a value, or for the script, and not for an option.
bool is_value(const std::string& word) {
  if (!word.starts_with('-') || word == "-" || is_negative_number(word)) return true;
  return word.find(' ') != std::string::npos && !match(word).has_value();
}

std::string shown(const Option& option) {
  std::string text = option.letter == 0 ? "    " : fmt::format("-{}, ", option.letter);
  text += fmt::format("--{}", option.name);
  if (option.kind != Kind::Flag) text += " VALUE";
  return text;
}

}  // namespace

Result<Unit> TorchrunArguments::take_variables(
    const std::map<std::string, std::string>& environment) {
  for (const Option& option : kOptions) {
    if (!option.variable || option.ours) continue;
    std::string name = "PET_" + std::string(option.name);
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    const auto variable = environment.find(name);
    if (variable == environment.end()) continue;
    const std::string& value = variable->second;
    if (option.kind == Kind::Flag) {
      if (!is_number<int>(value))
        return mistake(fmt::format("{} is '{}', not a whole number", name, value),
                       "write 1 or 0, or unset it");
      if (std::stoi(value) != 0) values_[std::string(option.name)] = "1";
      continue;
    }
    TRY_VOID(check(option, value, name));
    values_[std::string(option.name)] = value;
  }
  return Unit{};
}

Result<Unit> TorchrunArguments::take_words(const std::vector<std::string>& words) {
  std::size_t at = 0;
  bool separated = false;  // a "--" before the script
  while (at < words.size()) {
    const std::string& word = words[at++];
    separated = word == "--";
    if (separated) break;
    if (is_value(word)) {
      --at;
      break;
    }
    if (word == "-h" || word == "--help") {
      help_ = true;
      return Unit{};
    }
    TRY(Match found, match(word));
    const Option& option = *found.option;
    const std::string name = fmt::format("--{}", option.name);
    if (option.kind == Kind::Flag) {
      if (found.value) return mistake(fmt::format("{} takes no value", name));
      values_[std::string(option.name)] = "1";
      continue;
    }
    if (!found.value) {
      if (at == words.size() || words[at] == "--" || !is_value(words[at]))
        return mistake(fmt::format("{} needs a value", name));
      found.value = words[at++];
    }
    TRY_VOID(check(option, *found.value, name));
    if (option.name == "set")
      overrides_.push_back(*found.value);
    else
      values_[std::string(option.name)] = *found.value;
  }
  if (at == words.size())
    return mistake("the script is missing",
                   "write train-run torchrun OPTIONS SCRIPT ARGUMENTS; --help shows the options");
  script_ = words[at++];
  // argparse removes the first "--", before the script or right behind it.
  if (!separated && at < words.size() && words[at] == "--") ++at;
  script_arguments_.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return Unit{};
}

Result<TorchrunArguments> TorchrunArguments::parse(
    const std::vector<std::string>& words, const std::map<std::string, std::string>& environment) {
  TorchrunArguments arguments;
  TRY_VOID(arguments.take_words(words));
  if (arguments.help_) return arguments;
  TorchrunArguments by_variables;
  TRY_VOID(by_variables.take_variables(environment));
  arguments.values_.merge(by_variables.values_);  // what words say stays
  return arguments;
}

std::string TorchrunArguments::text(std::string_view option) const {
  const auto value = values_.find(option);
  if (value != values_.end()) return value->second;
  const Option* known = option_named(option);
  return known == nullptr ? "" : std::string(known->fallback);
}

std::string torchrun_help() {
  std::string text =
      "Take torchrun's own command line: a launch script changes one word\n"
      "Usage: train-run torchrun [OPTIONS] SCRIPT [ARGUMENT...]\n\n"
      "torchrun's options, as in PyTorch 2.11; PET_NNODES gives --nnodes, and so on:\n";
  for (const bool ours : {false, true}) {
    if (ours) text += "\ntrain-run's own:\n";
    for (const Option& option : kOptions)
      if (option.ours == ours) text += fmt::format("  {:<38}{}\n", shown(option), option.help);
  }
  text +=
      "\nPYTHON_EXEC names the Python (default python3). Standard output and error are the "
      "workers';\nwhat train-run says itself goes to standard error. See "
      "docs/coming-from-torchrun.md.\n";
  return text;
}

}  // namespace train
