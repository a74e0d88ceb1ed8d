#include "launcher/torchrun/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace train {
namespace {

// What torchrun does by --run-path, in the interpreter that it forks.
constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";

// LOCAL_RANK selects one of the node's GPUs. The comma lets cut(1) see one field where there is
// one.
constexpr const char* kVirtualRank =
    "CUDA_VISIBLE_DEVICES=$(printf '%s,' \"${CUDA_VISIBLE_DEVICES-}\" | "
    "cut -d, -f$((LOCAL_RANK + 1))); LOCAL_RANK=0; export CUDA_VISIBLE_DEVICES LOCAL_RANK; ";

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// A word of torchrun's, as Python's string.Template reads it: texts, and between them
/// ${local_rank}.
using Pieces = std::vector<std::string>;

Pieces pieces_of(std::string_view word) {
  constexpr std::string_view kName = "local_rank";
  Pieces pieces{""};
  while (!word.empty()) {
    const std::size_t dollar = std::min(word.find('$'), word.size());
    pieces.back() += word.substr(0, dollar);
    word.remove_prefix(dollar);
    if (word.empty()) break;
    const std::string_view after = word.substr(1);
    if (after.starts_with('$')) {
      pieces.back() += '$';
      word.remove_prefix(2);
    } else if (after.starts_with(kName) &&
               (after.size() == kName.size() || !is_of_name(after[kName.size()]))) {
      pieces.emplace_back();
      word.remove_prefix(1 + kName.size());
    } else if (after.starts_with("{local_rank}")) {
      pieces.emplace_back();
      word.remove_prefix(3 + kName.size());
    } else {
      pieces.back() += '$';
      word.remove_prefix(1);
    }
  }
  return pieces;
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

Result<std::vector<std::string>> torchrun_command_line(
    const TorchrunArguments& arguments, const std::map<std::string, std::string>& environment) {
  const auto python = environment.find("PYTHON_EXEC");
  const std::string interpreter =
      python != environment.end() && !python->second.empty() ? python->second : "python3";
  std::string program;
  std::vector<std::string> words;
  if (arguments.flag("run-path")) {
    program = interpreter;
    words = {"-u", "-c", kRunPath, arguments.script()};
  } else if (!arguments.flag("no-python")) {
    program = interpreter;
    words = {"-u"};
    if (arguments.flag("module")) words.emplace_back("-m");
    words.push_back(arguments.script());
  } else if (arguments.flag("module")) {
    return Error{Errc::InvalidArgument,
                 "torchrun: --no-python and --module cannot be used together",
                 "remove one of them"};
  } else {
    program = arguments.script();
  }
  words.insert(words.end(), arguments.script_arguments().begin(),
               arguments.script_arguments().end());

  const bool own_rank = arguments.flag("virtual-local-rank");
  bool in_shell = own_rank;
  std::vector<std::string> command{program};
  std::string line = "trainrun_rank=$LOCAL_RANK; ";
  if (own_rank) line += kVirtualRank;
  line += "exec " + quoted(program);
  for (const std::string& word : words) {
    const Pieces pieces = pieces_of(word);
    if (pieces.size() > 1) in_shell = true;
    command.push_back(pieces.front());
    line += " " + quoted(pieces.front());
    for (auto piece = pieces.begin() + 1; piece != pieces.end(); ++piece)
      line += "\"$trainrun_rank\"" + quoted(*piece);
  }
  if (in_shell) return std::vector<std::string>{"/bin/sh", "-c", line};
  return command;
}

}  // namespace train
