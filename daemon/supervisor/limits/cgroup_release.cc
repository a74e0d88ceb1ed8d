#include "daemon/supervisor/limits/cgroup_release.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/text_file.h"

namespace train {
namespace {

constexpr std::array kControllers{"memory", "pids", "cpu"};
constexpr int kDepthMax = 64;
constexpr std::string_view kControlGroup = "/.control";  // of ExecStopPost, in systemd's words

std::string note_path(const std::string& runtime_dir) { return runtime_dir + "/own-cgroup"; }

Result<Unit> write_text(const std::string& path, std::string_view text, int flags) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (file.get() < 0) return system_error(errno, "opening " + path);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return system_error(errno, "writing " + path);
  return Unit{};
}

std::vector<std::string> groups_below(const std::string& group) {
  std::vector<std::string> found;
  DIR* folder = ::opendir(group.c_str());
  if (folder == nullptr) return found;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") found.push_back(group + "/" + name);
  }
  ::closedir(folder);
  return found;
}

/// Take the controllers off, from the bottom up, as the kernel requires.
Result<Unit> take_off(const std::string& group, int depth) {
  if (depth > kDepthMax)
    return Error{Errc::ResourceExhausted, "there are too many groups below each other in " + group};
  for (const std::string& below : groups_below(group)) TRY_VOID(take_off(below, depth + 1));
  const std::string path = group + "/cgroup.subtree_control";
  std::istringstream handed_on(read_text(path));
  for (std::string name; handed_on >> name;) {
    if (std::find(kControllers.begin(), kControllers.end(), name) == kControllers.end()) continue;
    TRY_VOID(write_text(path, "-" + name, 0));
  }
  return Unit{};
}

}  // namespace

Result<Unit> note_own_cgroup(const std::string& runtime_dir, const std::string& group) {
  const std::string path = note_path(runtime_dir);
  if (!group.empty()) return write_text(path, group, O_CREAT | O_TRUNC);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return system_error(errno, "removing " + path);
  return Unit{};
}

Result<bool> release_cgroup(const std::string& runtime_dir, const CgroupLocations& locations) {
  const std::string noted = read_text(note_path(runtime_dir));
  if (noted.empty() || !locations.v2) return false;
  const std::string& own = *locations.v2;
  if (own != noted && own != noted + std::string(kControlGroup)) return false;
  TRY_VOID(take_off(noted, 0));
  return true;
}

}  // namespace train
