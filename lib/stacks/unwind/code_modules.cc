#include "lib/stacks/unwind/code_modules.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

namespace train {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

std::string file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(path.substr(slash == path.npos ? 0 : slash + 1));
}

bool same_file(const MappedRange& a, const MappedRange& b) {
  return a.device == b.device && a.inode == b.inode && a.path == b.path;
}

/// Open a regular file with the inode of a mapping. `exact`: on the same device, too. Overlay and
/// btrfs file systems show another device in /proc/PID/maps than stat(2) does.
FileDescriptor open_if_same(const std::string& path, const MappedRange& range, bool exact) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status {};
  const bool same = file.get() >= 0 && ::fstat(file.get(), &status) == 0 &&
                    S_ISREG(status.st_mode) && status.st_ino == range.inode &&
                    (!exact || status.st_dev == range.device);
  if (!same) file.reset();
  return file;
}

}  // namespace

FileDescriptor open_mapped_file(const ProcessCapture& capture, const MappedRange& range) {
  if (capture.ended) {  // its pid may be another's by now
    FileDescriptor file = open_if_same(range.path, range, true);
    return file.get() >= 0 ? std::move(file) : open_if_same(range.path, range, false);
  }
  const bool deleted = std::string_view(range.path).ends_with(kDeleted);
  const std::string process = fmt::format("/proc/{}", capture.pid);
  FileDescriptor file;
  if (!deleted) {
    file = open_if_same(process + "/root" + range.path, range, false);
    // The process may have ended since: then only the exact file will do.
    if (file.get() < 0) file = open_if_same(range.path, range, true);
  }
  if (file.get() < 0 && range.path == capture.executable)
    file = open_if_same(process + "/exe", range, false);
  if (file.get() < 0)  // root may
    file = open_if_same(fmt::format("{}/map_files/{:x}-{:x}", process, range.start, range.end),
                        range, false);
  return file;
}

CodeModules::CodeModules(const ProcessCapture& capture) : capture_(capture) {
  CodeModule current;
  bool has_code = false;
  std::uint64_t end = 0;
  const auto finish = [&] {
    if (current.first != nullptr && has_code) modules_.push_back(current);
    current = {};
    has_code = false;
  };
  for (const MappedRange& range : capture_.mappings) {
    if (range.start < end || range.end <= range.start) continue;  // not from a kernel
    end = range.end;
    if (range.executable) executable_.push_back(&range);
    const bool vdso = range.path == "[vdso]" && range.start == capture_.vdso_start;
    if (range.inode == 0 && !vdso) continue;
    const bool continues = current.first != nullptr && same_file(*current.first, range) &&
                           range.offset >= current.first->offset;
    if (!continues) {
      finish();
      current = {.start = range.start, .first = &range, .name = file_name(range.path)};
      if (vdso) current.bytes = &capture_.vdso;
      if (const std::size_t at = current.name.rfind(kDeleted);
          at != std::string::npos && at + kDeleted.size() == current.name.size())
        current.name.resize(at);
    }
    current.end = range.end;
    has_code |= range.executable;
  }
  finish();
}

CodeModule* CodeModules::at(std::uint64_t address) {
  const auto after = std::upper_bound(
      modules_.begin(), modules_.end(), address,
      [](std::uint64_t value, const CodeModule& module) { return value < module.start; });
  if (after == modules_.begin()) return nullptr;
  CodeModule& module = *std::prev(after);
  return address < module.end ? &module : nullptr;
}

bool CodeModules::executable(std::uint64_t address) const {
  const auto after = std::upper_bound(
      executable_.begin(), executable_.end(), address,
      [](std::uint64_t value, const MappedRange* range) { return value < range->start; });
  return after != executable_.begin() && address < (*std::prev(after))->end;
}

}  // namespace train
