#include "lib/storage/private_roots.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/storage/own_folder.h"

namespace train {
namespace {

// Leaves room for the sockets below it: a socket's path has at most 107 bytes.
constexpr std::size_t kRootBytesMax = 39;

constexpr const char *kTmp = "/tmp", *kVarTmp = "/var/tmp";

bool is_usable_root(const std::string& path) {
  return path.size() <= kRootBytesMax && is_safe_root(path) &&
         ::access(path.c_str(), W_OK | X_OK) == 0;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_safe_root(const std::string& path) {
  if (path == kTmp || path == kVarTmp) return true;
  struct stat status {};
  if (!path.starts_with('/') || ::stat((path + "/").c_str(), &status) != 0) return false;
  const bool closed = (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return (status.st_uid == ::geteuid() || status.st_uid == 0) &&
         (closed || (status.st_mode & S_ISVTX) != 0);
}

std::string runtime_root() {
  const std::string named = variable("XDG_RUNTIME_DIR");
  return is_usable_root(named) ? named : kTmp;
}

std::vector<std::string> spool_roots() {
  std::vector<std::string> roots{variable("TMPDIR"), kVarTmp, kTmp};
  std::erase_if(roots, [](const std::string& root) { return !is_usable_root(root); });
  return roots;
}

std::string runtime_name(const std::string& random) {
  std::string name = fmt::format("trainrun-{}-", ::geteuid());
  for (const char c : random) name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return name;
}

std::string spool_name(const std::string& runtime_dir) {
  std::string name = runtime_dir.substr(runtime_dir.rfind('/') + 1);
  if (const auto dash = name.find('-'); dash != std::string::npos) name[dash] = '_';
  return name;
}

bool holds_sockets(const std::string& folder) {
  const std::string path = folder + "/.socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound =
      fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) ::close(fd);
  return bound && ::unlink(path.c_str()) == 0;
}

Result<PrivateFolders> make_private_folders(const std::string& random) {
  PrivateFolders folders;
  folders.runtime = runtime_root() + "/" + runtime_name(random);
  TRY_VOID(make_own_folder(folders.runtime));
  Error why{Errc::NotFound, "neither $TMPDIR nor /var/tmp is a folder that is safe to use",
            "set TMPDIR to a folder of yours that others cannot write to"};
  for (const std::string& root : spool_roots()) {
    folders.spool = root + "/" + spool_name(folders.runtime);
    const auto made = make_own_folder(folders.spool);
    if (made && holds_sockets(folders.spool)) return folders;
    if (made) (void)remove_own_folder(folders.spool);
    why = made ? Error{Errc::Io, "no socket can be made in " + folders.spool} : made.error();
  }
  (void)remove_own_folder(folders.runtime);
  return why;
}

}  // namespace train
