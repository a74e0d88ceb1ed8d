#include "daemon/supervisor/processes/process_sampler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/supervisor/processes/blocking_call.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kProcessesMax = 256;
constexpr std::size_t kWaitBytesMax = 64;
constexpr std::size_t kFileBytesMax = 4096;

/// Return the beginning of a file of the process; "" if it cannot be read. The files that we read
/// whole are much smaller; a list of children may have any length.
std::string read_proc(pid_t pid, std::string_view name) {
  const FileDescriptor file(
      ::open(fmt::format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(kFileBytesMax, '\0');
  const ssize_t got = file.get() < 0 ? 0 : ::read(file.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

/// Remove the first number from `text`, after blanks, and return it; 0 if there is none.
std::int64_t next_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return number;
}

/// Return the number after `key`, as in "rchar: 4711".
std::int64_t number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == text.npos) return 0;
  text.remove_prefix(at + key.size());
  return next_number(text);
}

/// Return the word after `key`, as in "Cpus_allowed_list:\t0-3".
std::string word_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == text.npos) return "";
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return std::string(text.substr(0, text.find_first_of(" \t\n")));
}

std::int64_t ticks_to_us(std::int64_t ticks) {
  static const std::int64_t per_second = ::sysconf(_SC_CLK_TCK);
  return ticks * (1'000'000 / per_second);
}

struct Process {
  pid_t pid = 0;
  char state = '?';
  std::int64_t cpu_us = 0, threads = 0, resident_bytes = 0;
  std::uint64_t began = 0;
};

/// Read /proc/PID/stat (proc(5)): the fields after the program's name, which may contain anything.
std::optional<Process> read_process(pid_t pid) {
  const std::string stat = read_proc(pid, "stat");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == stat.npos || name_end + 2 >= stat.size()) return std::nullopt;
  static const std::int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  Process process{.pid = pid, .state = stat[name_end + 2]};
  std::string_view rest = std::string_view(stat).substr(name_end + 3);
  std::int64_t fields[22] = {};  // from the 4th of stat on
  for (std::int64_t& field : fields) field = next_number(rest);
  process.cpu_us = ticks_to_us(fields[10] + fields[11] + fields[12] + fields[13]);
  process.threads = fields[16];
  process.began = static_cast<std::uint64_t>(fields[18]);
  process.resident_bytes = fields[20] * page_bytes;
  return process;
}

/// Return `root` and its descendants.
std::vector<Process> read_tree(pid_t root) {
  std::vector<Process> tree;
  std::vector<pid_t> left{root};
  while (!left.empty() && tree.size() < kProcessesMax) {
    const pid_t pid = left.back();
    left.pop_back();
    const auto process = read_process(pid);
    if (!process) continue;
    tree.push_back(*process);
    std::string children = read_proc(pid, fmt::format("task/{}/children", pid));
    children.resize(children.rfind(' ') + 1);  // a blank follows each; a long list ends anywhere
    std::string_view rest = children;
    for (std::int64_t child = next_number(rest); child > 0; child = next_number(rest))
      left.push_back(static_cast<pid_t>(child));
  }
  return tree;
}

const Process& main_of(const std::vector<Process>& tree, pid_t program) {
  const auto named = std::find_if(tree.begin(), tree.end(),
                                  [program](const Process& one) { return one.pid == program; });
  if (named != tree.end()) return *named;
  return *std::max_element(tree.begin(), tree.end(),
                           [](const Process& a, const Process& b) { return a.cpu_us < b.cpu_us; });
}

}  // namespace

ProcessSample sample_processes(pid_t root, pid_t program) {
  const std::vector<Process> tree = read_tree(root);
  if (tree.empty()) return {};
  const Process& main = main_of(tree, program);
  ProcessSample sample{.pid = main.pid,
                       .state = std::string(1, main.state),
                       .processes = static_cast<std::uint32_t>(tree.size())};
  for (const Process& process : tree) {
    sample.threads += static_cast<std::uint32_t>(process.threads);
    sample.cpu_us += process.cpu_us;
    sample.resident_bytes += process.resident_bytes;
    const std::string io = read_proc(process.pid, "io");
    sample.read_bytes += number_after(io, "rchar:");
    sample.written_bytes += number_after(io, "wchar:");
  }
  const std::string schedule = read_proc(main.pid, "schedstat");  // in nanoseconds
  std::string_view times = schedule;
  next_number(times);
  sample.cpu_wait_us = next_number(times) / 1000;
  const std::string status = read_proc(main.pid, "status");
  // "nonvoluntary_ctxt_switches" contains the other key.
  sample.context_switches = number_after(status, "\nvoluntary_ctxt_switches:") +
                            number_after(status, "\nnonvoluntary_ctxt_switches:");
  sample.cpus = utf8_text(word_after(status, "Cpus_allowed_list:"), kWaitBytesMax);
  if (main.state == 'D') {
    const std::string where = read_proc(main.pid, "wchan");
    if (where != "0") sample.waits_in = utf8_text(where, kWaitBytesMax);
  }
  if (main.state == 'D' || main.state == 'S') sample.waits_for = blocking_call(main.pid);
  return sample;
}

std::vector<pid_t> process_tree(pid_t root) {
  std::vector<pid_t> pids;
  for (const Process& process : read_tree(root))
    if (process.state != 'Z' && process.state != 'X') pids.push_back(process.pid);
  return pids;
}

std::uint64_t process_began(pid_t pid) {
  const auto process = read_process(pid);
  return process ? process->began : 0;
}

}  // namespace train
