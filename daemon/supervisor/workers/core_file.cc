#include "daemon/supervisor/workers/core_file.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/text_file.h"

namespace train {
namespace {

constexpr auto kWrittenBefore = std::chrono::seconds(120);  // writing a large one takes long
constexpr auto kWrittenAfter = std::chrono::seconds(10);    // clocks of file systems differ

/// Return the text such that each of its characters stands for itself.
std::string escaped(std::string_view text) {
  std::string all;
  for (const char character : text) {
    if (std::string_view("*?[]\\").find(character) != std::string_view::npos) all += '\\';
    all += character;
  }
  return all;
}

std::string specifier(char letter, const CoreDump& dump) {
  switch (letter) {
    case '%':
      return "%";
    case 'p':
      return std::to_string(dump.pid);
    case 's':
      return std::to_string(dump.signal);
    case 'u':
      return std::to_string(::geteuid());
    case 'g':
      return std::to_string(::getegid());
    default:
      return "*";
  }
}

/// Return whether the worker's dump may be this file.
bool may_be(const char* path, const CoreDump& dump) {
  struct stat found {};
  if (::lstat(path, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != ::geteuid())
    return false;
  const auto written = std::chrono::system_clock::from_time_t(found.st_mtim.tv_sec);
  return dump.ended - kWrittenBefore <= written && written <= dump.ended + kWrittenAfter;
}

}  // namespace

std::string core_file_glob(std::string_view core_pattern, bool uses_pid, const CoreDump& dump) {
  while (core_pattern.ends_with('\n')) core_pattern.remove_suffix(1);
  if (core_pattern.starts_with('|')) return "";
  const bool names_pid = core_pattern.find("%p") != core_pattern.npos;
  std::string glob = core_pattern.starts_with('/') ? "" : escaped(dump.folder) + "/";
  for (std::size_t at = 0; at < core_pattern.size(); ++at) {
    if (core_pattern[at] != '%')
      glob += escaped(core_pattern.substr(at, 1));
    else if (++at < core_pattern.size())
      glob += specifier(core_pattern[at], dump);
  }
  if (uses_pid && !names_pid) glob += fmt::format(".{}", dump.pid);
  return glob;
}

std::string find_core_dump(const CoreDump& dump) {
  const std::string core_pattern = read_text("/proc/sys/kernel/core_pattern");
  if (core_pattern.find("systemd-coredump") != core_pattern.npos)
    return fmt::format("coredumpctl debug {}", dump.pid);
  const bool uses_pid = read_text("/proc/sys/kernel/core_uses_pid").starts_with('1');
  const std::string pattern = core_file_glob(core_pattern, uses_pid, dump);
  if (pattern.empty() || !pattern.starts_with('/')) return "";
  glob_t found{};
  std::string path;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc && path.empty(); ++i)
      if (may_be(found.gl_pathv[i], dump)) path = found.gl_pathv[i];
  }
  ::globfree(&found);
  return path;
}

}  // namespace train
