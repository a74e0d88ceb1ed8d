#include "lib/stacks/proc_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "lib/base/file_descriptor.h"
#include "lib/stacks/syscall_names.h"

namespace train {
namespace {

constexpr std::size_t kMapsBytesMax = 16u << 20;  // 100,000 mappings

std::string task_file(pid_t pid, pid_t tid, const char* name) {
  return fmt::format("/proc/{}/task/{}/{}", pid, tid, name);
}

/// Remove the characters up to the first `end` from `text`, and return them.
std::string_view next_word(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return word;
}

bool parse_number(std::string_view text, int base, std::uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, base);
  return parsed.ec == std::errc{} && parsed.ptr == end;
}

std::string trimmed_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

/// The kernel writes a line feed in a path as "\012".
std::string unescaped(std::string_view path) {
  std::string out;
  for (std::size_t at = 0; at < path.size();) {
    const bool feed = path.substr(at).starts_with("\\012");
    out += feed ? '\n' : path[at];
    at += feed ? 4 : 1;
  }
  return out;
}

/// 7f0000000000-7f0000001000 r-xp 00000000 08:01 1234      /usr/lib/libc.so.6
bool parse_mapping(std::string_view line, MappedRange& range) {
  std::uint64_t major = 0, minor = 0;
  const bool numbers = parse_number(next_word(line, '-'), 16, range.start) &&
                       parse_number(next_word(line, ' '), 16, range.end);
  const std::string_view rights = next_word(line, ' ');
  if (!numbers || rights.size() != 4 || range.end <= range.start) return false;
  range.executable = rights[2] == 'x';
  if (!parse_number(next_word(line, ' '), 16, range.offset) ||
      !parse_number(next_word(line, ':'), 16, major) ||
      !parse_number(next_word(line, ' '), 16, minor) ||
      !parse_number(next_word(line, ' '), 10, range.inode))
    return false;
  range.device = ::makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  range.path = unescaped(line.substr(0, kMappingPathBytesMax));
  return true;
}

/// "202 0x7f… …" names the call; "running" and "-1 …" (not in a call) do not.
std::string call_of(const std::string& text) {
  std::uint64_t number = 0;
  const std::string_view first = std::string_view(text).substr(0, text.find(' '));
  return parse_number(first, 10, number) ? syscall_name(static_cast<long>(number)) : "";
}

}  // namespace

std::string read_proc_text(const std::string& path, std::size_t bytes_max) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (file.get() < 0) return text;
  for (std::array<char, 16384> part; text.size() < bytes_max;) {
    const std::size_t wanted = std::min(part.size(), bytes_max - text.size());
    const ssize_t size = ::read(file.get(), part.data(), wanted);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  return text;
}

std::string executable_of(pid_t pid) {
  std::array<char, kMappingPathBytesMax> path{};
  const ssize_t size =
      ::readlink(fmt::format("/proc/{}/exe", pid).c_str(), path.data(), path.size());
  return std::string(path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
}

Result<std::vector<pid_t>> threads_of(pid_t pid) {
  DIR* folder = ::opendir(fmt::format("/proc/{}/task", pid).c_str());
  if (folder == nullptr) return system_error(errno, fmt::format("listing threads of {}", pid));
  std::vector<pid_t> threads;
  while (const dirent* entry = ::readdir(folder)) {
    std::uint64_t tid = 0;
    if (parse_number(entry->d_name, 10, tid)) threads.push_back(static_cast<pid_t>(tid));
  }
  ::closedir(folder);
  std::sort(threads.begin(), threads.end(),
            [pid](pid_t a, pid_t b) { return std::pair(a != pid, a) < std::pair(b != pid, b); });
  return threads;
}

char thread_state(pid_t pid, pid_t tid) {
  const std::string stat = read_proc_text(task_file(pid, tid, "stat"), 4096);
  const std::size_t name_end = stat.rfind(')');  // a thread's name can hold anything
  return name_end != stat.npos && name_end + 2 < stat.size() ? stat[name_end + 2] : '?';
}

ThreadFacts thread_facts(pid_t pid, pid_t tid) {
  ThreadFacts facts{.tid = tid, .state = thread_state(pid, tid)};
  facts.name = trimmed_line(read_proc_text(task_file(pid, tid, "comm"), 64));
  facts.wchan = trimmed_line(read_proc_text(task_file(pid, tid, "wchan"), 128));
  if (facts.wchan == "0") facts.wchan.clear();
  facts.syscall = call_of(read_proc_text(task_file(pid, tid, "syscall"), 256));
  return facts;
}

std::string waiting_place(pid_t pid, pid_t tid) {
  const std::string text = trimmed_line(read_proc_text(task_file(pid, tid, "syscall"), 256));
  if (call_of(text).empty()) return "";
  // The number is left out: a call that a stop has interrupted may go on as restart_syscall.
  return text.substr(text.find(' ') + 1);
}

std::string kernel_stack(pid_t pid, pid_t tid) {
  return read_proc_text(task_file(pid, tid, "stack"), 4096);
}

pid_t tracer_of(pid_t pid, pid_t tid) {
  const std::string status = read_proc_text(task_file(pid, tid, "status"), 16384);
  constexpr std::string_view kKey = "\nTracerPid:\t";
  const std::size_t at = status.find(kKey);
  if (at == status.npos) return 0;
  std::string_view rest = std::string_view(status).substr(at + kKey.size());
  std::uint64_t tracer = 0;
  return parse_number(next_word(rest, '\n'), 10, tracer) ? static_cast<pid_t>(tracer) : 0;
}

std::vector<MappedRange> parse_maps(std::string_view text) {
  std::vector<MappedRange> mappings;
  while (text.find('\n') != text.npos) {
    MappedRange range;
    if (parse_mapping(next_word(text, '\n'), range)) mappings.push_back(std::move(range));
  }
  return mappings;
}

std::vector<MappedRange> mappings_of(pid_t pid) {
  return parse_maps(read_proc_text(fmt::format("/proc/{}/maps", pid), kMapsBytesMax));
}

}  // namespace train
