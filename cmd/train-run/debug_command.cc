// debug: attaches a debugger to the program of a rank, or says how to do that on the rank's node.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "cmd/train-run/ask_run.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "lib/base/exec_program.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/base/terminal_text.h"
#include "lib/base/text_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;

/// Where a rank's program runs.
struct DebugTarget {
  std::string node;
  pid_t pid = 0;
};

Result<DebugTarget> find_target(const RunFolder& folder, int rank) {
  TRY(const std::string path, ask_for_stacks(folder, {Rank{rank}}));
  const boost::json::object stacks = read_json(json_beside(path));
  const auto* ranks = stacks.if_contains("ranks");
  for (const auto& item :
       ranks != nullptr && ranks->is_array() ? ranks->as_array() : boost::json::array{}) {
    const auto* found = item.if_object();
    const auto* number = found != nullptr ? found->if_contains("rank") : nullptr;
    const auto* pid = found != nullptr ? found->if_contains("pid") : nullptr;
    const auto* node = found != nullptr ? found->if_contains("node") : nullptr;
    if (number == nullptr || pid == nullptr || !number->is_int64() || !pid->is_int64()) continue;
    if (number->as_int64() != rank || pid->as_int64() <= 1) continue;
    return DebugTarget{node != nullptr && node->is_string() ? std::string(node->as_string()) : "",
                       static_cast<pid_t>(pid->as_int64())};
  }
  return Error{Errc::NotFound, fmt::format("{} has no rank {} that runs", folder.path(), rank)};
}

/// Return whether this machine's process with that pid is the rank: its environment says so.
bool runs_here(const RunFolder& folder, const DebugTarget& target, int rank) {
  const std::string environment = '\0' + read_text(fmt::format("/proc/{}/environ", target.pid));
  const auto has = [&](const std::string& variable) {
    return environment.find('\0' + variable + '\0') != std::string::npos;
  };
  // A process that stood by began without a rank.
  return has("TRAINRUN_RUN_NAME=" + fs::path(folder.path()).filename().string()) &&
         (has(fmt::format("RANK={}", rank)) ||
          environment.find(std::string_view("\0TRAINRUN_STANDBY=", 18)) != std::string::npos);
}

bool is_installed(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

/// Return the host of "gpu-1:7070" or "[fd00::1]:7070" as ssh takes it: without brackets.
std::string host_of(const std::string& node) {
  const std::string host = node.substr(0, node.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

/// Return the command that attaches. Both debuggers take -p; lldb's commands differ from gdb's.
std::vector<std::string> command_of(const DebugCommand& options, const std::string& debugger,
                                    pid_t pid) {
  std::vector<std::string> words{debugger};
  if (fs::path(debugger).filename() == "gdb") words.push_back("-q");
  words.insert(words.end(), {"-p", std::to_string(pid)});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return words;
}

std::string shown(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

/// Explain beforehand what the debugger would say less clearly.
void warn_of_ptrace_scope() {
  const std::string scope = read_text("/proc/sys/kernel/yama/ptrace_scope");
  if (::geteuid() == 0 || scope.empty() || scope.starts_with('0')) return;
  print_err(
      "train-run: warning: kernel.yama.ptrace_scope is {}: only root may attach to a running "
      "program, or anybody to one that waits (--wait-for-debugger)\n",
      scope.substr(0, scope.find('\n')));
}

/// Return the debugger to use; nothing if none is installed.
std::optional<std::string> debugger_of(const DebugCommand& options) {
  if (!options.debugger.empty()) return options.debugger;
  for (const char* name : {"gdb", "lldb"})
    if (is_installed(name)) return name;
  return std::nullopt;
}

}  // namespace

int debug_command(const RunReference& reference, const DebugCommand& options) {
  const auto folder = folder_to_ask(reference);
  if (!folder) return not_answered(folder.error());
  const auto target = find_target(*folder, options.rank);
  if (!target) return not_answered(target.error());
  const auto debugger = debugger_of(options);
  const std::vector<std::string> words = command_of(options, debugger.value_or("gdb"), target->pid);
  if (!runs_here(*folder, *target, options.rank)) {
    print_out("rank {} is process {} on {}. To debug it there:\n  {}\n", options.rank, target->pid,
              target->node, shown({"ssh", "-t", host_of(target->node), shown(words)}));
    return 0;
  }
  if (options.print) {
    print_out("{}\n", shown(words));
    return 0;
  }
  if (!debugger || !is_installed(*debugger))
    return failed(
        {Errc::NotFound,
         fmt::format("{} is not installed here", debugger.value_or("neither gdb nor lldb")),
         "install gdb, or name another with --debugger"});
  warn_of_ptrace_scope();
  print_err("train-run: rank {} is process {}: {}\n", options.rank, target->pid, shown(words));
  return failed(exec_program(words));
}

}  // namespace train
