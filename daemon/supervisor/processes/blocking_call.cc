#include "daemon/supervisor/processes/blocking_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdint>
#include <optional>
#include <sstream>

#include "lib/base/text_file.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kTextBytesMax = 256;
constexpr std::size_t kPathBytesShown = 160;

struct FileCall {
  std::int64_t number;
  const char* name;
};
/// Calls whose first argument is a descriptor.
constexpr std::array kFileCalls{
    FileCall{SYS_read, "read"},           FileCall{SYS_write, "write"},
    FileCall{SYS_pread64, "read"},        FileCall{SYS_pwrite64, "write"},
    FileCall{SYS_readv, "read"},          FileCall{SYS_writev, "write"},
    FileCall{SYS_preadv, "read"},         FileCall{SYS_pwritev, "write"},
    FileCall{SYS_fsync, "fsync"},         FileCall{SYS_fdatasync, "fdatasync"},
    FileCall{SYS_fstat, "fstat"},         FileCall{SYS_getdents64, "listing"},
    FileCall{SYS_ftruncate, "ftruncate"}, FileCall{SYS_fallocate, "fallocate"},
    FileCall{SYS_flock, "flock"},         FileCall{SYS_ioctl, "ioctl"},
    FileCall{SYS_recvfrom, "recv"},       FileCall{SYS_recvmsg, "recv"},
    FileCall{SYS_sendto, "send"},         FileCall{SYS_sendmsg, "send"},
    FileCall{SYS_connect, "connect"},     FileCall{SYS_accept4, "accept"}};

struct Call {
  const char* name = nullptr;
  std::int64_t descriptor = -1;
};

/// Read "0 0x3 0x7ffd…" of /proc/PID/syscall: the number of the call and its arguments.
std::optional<Call> call_in(std::string_view text) {
  std::int64_t number = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto found = std::find_if(kFileCalls.begin(), kFileCalls.end(),
                                  [number](const FileCall& call) { return call.number == number; });
  if (read.ec != std::errc{} || found == kFileCalls.end()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  if (!text.starts_with(" 0x")) return std::nullopt;
  Call call{found->name};
  std::from_chars(text.data() + 3, text.data() + text.size(), call.descriptor, 16);
  return call;
}

std::string link_target(const std::string& link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  target.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return target;
}

/// Return whether `path` is `folder` or lies in it.
bool lies_in(std::string_view path, std::string_view folder) {
  if (!path.starts_with(folder)) return false;
  return folder == "/" || path.size() == folder.size() || path[folder.size()] == '/';
}

}  // namespace

std::string mount_of(std::string_view mountinfo, std::string_view path) {
  std::string best, type;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    // proc(5): id, parent, device, root, mount point, options, optional fields, "-", type, source.
    std::istringstream fields(line);
    std::string field, point;
    for (int i = 0; i < 5 && fields >> field;) {
      if (++i == 5) point = field;
    }
    const std::size_t rest = line.find(" - ");
    if (rest == line.npos || !lies_in(path, point) || point.size() < best.size()) continue;
    best = point;  // of two mounts at one place, the later one is seen
    type = line.substr(rest + 3, line.find(' ', rest + 3) - rest - 3);
  }
  return best.empty() ? "" : fmt::format("{} at {}", type, best);
}

std::string blocking_call(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}/", pid);
  const auto call = call_in(read_text(folder + "syscall"));
  if (!call) return "";
  const std::string target = link_target(fmt::format("{}fd/{}", folder, call->descriptor));
  if (target.empty()) return call->name;
  std::string text = fmt::format("{} of '{}'", call->name, utf8_text(target, kPathBytesShown));
  if (target.front() == '/') {
    const std::string mount = mount_of(read_text(folder + "mountinfo"), target);
    if (!mount.empty()) text += fmt::format(" ({})", mount);
  }
  return utf8_text(text, kTextBytesMax);
}

}  // namespace train
