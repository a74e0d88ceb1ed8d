#include "lib/stacks/py_spy.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <sstream>
#include <string_view>

#include "lib/base/thread.h"
#include "lib/base/utf8.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/run_program.h"

namespace train {
namespace {

constexpr std::size_t kEnvironmentBytesMax = 1u << 20;
constexpr std::size_t kReasonBytesMax = 512;
constexpr std::size_t kFoldersMax = 256;
constexpr Duration kKillMargin = milliseconds{1500};  // to end it after its deadline
constexpr const char* kName = "py-spy";

using Answer = Result<std::optional<std::string>>;

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return path.starts_with('/') ? std::string(path.substr(0, slash)) : "";
}

/// Return whether a process is ours in every respect: no id of it is another's.
bool is_ours(pid_t pid) {
  const std::string status = read_proc_text(fmt::format("/proc/{}/status", pid), 16384);
  constexpr std::string_view kKey = "\nUid:\t";
  const std::size_t at = status.find(kKey);
  if (at == status.npos) return false;
  std::istringstream ids(status.substr(at + kKey.size()));
  uid_t id = 0;
  for (int i = 0; i < 4; ++i) {
    if (!(ids >> id) || id != ::geteuid()) return false;
  }
  return true;
}

/// Return a variable of the environment with which a process began, or "".
std::string variable_of(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view one = environment.substr(0, environment.find('\0'));
    environment.remove_prefix(std::min(one.size() + 1, environment.size()));
    if (one.starts_with(name) && one.substr(name.size()).starts_with('='))
      return std::string(one.substr(name.size() + 1));
  }
  return "";
}

void add_folders(std::string_view path, std::vector<std::string>& folders) {
  while (!path.empty() && folders.size() < kFoldersMax) {
    const std::string_view one = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(one.size() + 1, path.size()));
    if (one.starts_with('/')) folders.emplace_back(one);
  }
}

/// Return the folders where a process's Python installs programs.
std::vector<std::string> folders_of(pid_t pid) {
  std::vector<std::string> folders;
  if (!is_ours(pid)) return folders;
  // The program as it was called: an environment's `python` is often a link to that of the system.
  std::string word = read_proc_text(fmt::format("/proc/{}/cmdline", pid), kMappingPathBytesMax);
  word.resize(std::min(word.find('\0'), word.size()));
  const std::string environment =
      read_proc_text(fmt::format("/proc/{}/environ", pid), kEnvironmentBytesMax);
  add_folders(folder_of(word), folders);
  const std::string venv = variable_of(environment, "VIRTUAL_ENV");
  if (!venv.empty()) add_folders(venv + "/bin", folders);
  add_folders(folder_of(executable_of(pid)), folders);
  add_folders(variable_of(environment, "PATH"), folders);
  if (!is_ours(pid)) folders.clear();  // it has given up its rights meanwhile
  return folders;
}

bool may_run(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         (found.st_mode & S_IWOTH) == 0 && ::access(path.c_str(), X_OK) == 0;
}

/// Return what py-spy says, in one line: "Error: ...; Caused by: ...".
std::string reason_in(const std::string& errors) {
  std::string reason;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos) continue;
    if (!reason.empty()) reason += reason.ends_with(':') ? " " : "; ";
    reason += line.substr(begin);
  }
  return utf8_text(reason, kReasonBytesMax);
}

Answer ask(const PySpyOrder& order, TimePoint deadline) {
  if (!runs_python(order.pid)) return std::nullopt;
  const std::string program = find_py_spy(order.pid);
  if (program.empty())
    return Error{Errc::NotFound, "py-spy is not installed",
                 "pip install py-spy in the worker's environment"};
  ProgramOrder run{.words = {program}, .bytes_max = order.bytes_max, .to_third = order.to_third};
  run.words.insert(run.words.end(), order.arguments.begin(), order.arguments.end());
  run.words.insert(run.words.end(), {"--pid", fmt::to_string(order.pid)});
  TRY(ProgramOutput output, run_program(run, deadline));
  if (output.trouble.empty()) return std::move(output.text);
  const std::string reason = reason_in(output.errors);
  return Error{Errc::Unavailable, fmt::format("'{}' {}{}{}", program, output.trouble,
                                              reason.empty() ? "" : ": ", reason)};
}

}  // namespace

bool runs_python(pid_t pid) {
  if (file_name(executable_of(pid)).starts_with("python")) return true;
  const std::vector<MappedRange> mappings = mappings_of(pid);
  return std::any_of(mappings.begin(), mappings.end(), [](const MappedRange& range) {
    return range.executable && file_name(range.path).starts_with("libpython");
  });
}

std::string find_py_spy(pid_t pid) {
  std::vector<std::string> folders = folders_of(pid);
  const char* ours = std::getenv("PATH");
  add_folders(ours == nullptr ? "" : ours, folders);
  for (const std::string& folder : folders) {
    std::string path = folder + "/" + kName;
    if (may_run(path)) return path;
  }
  return "";
}

Answer ask_py_spy(const PySpyOrder& order, TimePoint deadline) {
  static std::atomic<int> calls{0};
  if (++calls > kPySpyCallsMax) {
    --calls;
    return Error{Errc::ResourceExhausted, "earlier calls of py-spy have not ended"};
  }
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  const auto started = start_unjoined_thread("py-spy", [promise, order, deadline] {
    Answer found = ask(order, deadline);
    --calls;
    promise->set_value(std::move(found));
  });
  if (!started) {
    --calls;
    return started.error();
  }
  if (answer.wait_until(deadline + kKillMargin) != std::future_status::ready)
    return Error{Errc::Timeout, "storage did not answer while py-spy was looked for or started"};
  return answer.get();
}

}  // namespace train
