#include "lib/storage/own_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/user_account.h"
#include "lib/storage/file_system.h"

namespace train {
namespace {

constexpr int kDepthMax = 64;  // one descriptor per level
constexpr int kMovesMax = 1 << 24;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

Error path_error(std::string_view doing, const std::string& path) {
  return system_error(errno, fmt::format("{} '{}'", doing, path));
}

Result<FileDescriptor> open_folder(int at, const char* name, const std::string& path) {
  FileDescriptor fd(::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() >= 0) return fd;
  if (errno == ENOTDIR || errno == ELOOP)
    return Error{Errc::Permission, fmt::format("'{}' is not a directory", path),
                 "another user may have put it there: remove it, or name another folder"};
  return path_error("opening the folder", path);
}

/// Check that this user owns it, and that others may not write it.
Result<Unit> check_ours(const struct stat& found, const std::string& path) {
  if (found.st_uid != file_user())
    return Error{Errc::Permission,
                 fmt::format("'{}' belongs to uid {}, but must belong to uid {}", path,
                             found.st_uid, file_user()),
                 "name a folder of your own"};
  if ((found.st_mode & kOthersWrite) != 0)
    return Error{
        Errc::Permission,
        fmt::format("other users may write '{}' (mode {:04o})", path, found.st_mode & 07777),
        fmt::format("chmod go-w {}", path)};
  return Unit{};
}

Result<FileDescriptor> open_ours(const std::string& path) {
  TRY(FileDescriptor folder, open_folder(AT_FDCWD, path.c_str(), path));
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0) return path_error("looking at", path);
  TRY_VOID(check_ours(found, path));
  return folder;
}

Result<FileDescriptor> open_marked(const std::string& path) {
  TRY(FileDescriptor folder, open_ours(path));
  const std::string name(kOwnFolderMarker);
  const FileDescriptor mark(
      ::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found {};
  const bool there = mark.get() >= 0 && ::fstat(mark.get(), &found) == 0 && S_ISREG(found.st_mode);
  if (!there || !check_ours(found, join_path(path, name)))
    return Error{Errc::Permission,
                 fmt::format("'{}' lacks the marker of a folder created by trainrun", path),
                 "remove it by hand if nobody needs it"};
  return folder;
}

Result<Unit> check_no_home(int folder, const std::string& path) {
  std::vector<std::string> never{"/"};
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    never.emplace_back(home);
  passwd entry{}, *known = nullptr;
  char text[4096];
  if (::getpwuid_r(file_user(), &entry, text, sizeof text, &known) == 0 && known != nullptr)
    never.emplace_back(known->pw_dir);
  struct stat found {
  }, other{};
  if (::fstat(folder, &found) != 0) return path_error("looking at", path);
  for (const std::string& one : never) {
    if (::stat(one.c_str(), &other) == 0 && other.st_dev == found.st_dev &&
        other.st_ino == found.st_ino)
      return Error{Errc::Permission,
                   fmt::format("'{}' is '{}', which is never removed", path, one)};
  }
  return Unit{};
}

/// Removes what is below one open folder.
class Remover {
 public:
  Remover(int root, const std::string& path, std::string_view keep)
      : root_(root), path_(path), keep_(keep) {}

  /// Empty the folder.
  Result<Unit> run() {
    struct stat found {};
    if (::fstat(root_, &found) != 0) return path_error("looking at", path_);
    device_ = found.st_dev;
    do {
      moved_ = false;
      TRY_VOID(empty(root_, 0));
    } while (moved_);
    return Unit{};
  }

 private:
  Result<Unit> empty(int folder, int depth) {
    const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* dir = fd < 0 ? nullptr : ::fdopendir(fd);
    if (dir == nullptr) return path_error("listing a folder below", path_);
    const std::unique_ptr<DIR, int (*)(DIR*)> closer(dir, &::closedir);
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir);
      if (entry == nullptr && errno != 0) return path_error("listing a folder below", path_);
      if (entry == nullptr) return Unit{};
      const std::string_view name = entry->d_name;
      if (name == "." || name == ".." || (depth == 0 && name == keep_)) continue;
      TRY_VOID(remove(folder, entry->d_name, depth));
    }
  }

  Result<Unit> remove(int folder, const char* name, int depth) {
    if (::unlinkat(folder, name, 0) == 0 || errno == ENOENT) return Unit{};
    const int refused = errno;
    struct stat entry {};
    const bool is_folder =
        ::fstatat(folder, name, &entry, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(entry.st_mode);
    if (!is_folder || (refused != EISDIR && refused != EPERM)) {
      errno = refused;
      return failed("removing", name);
    }
    if (depth == kDepthMax) return move_up(folder, name);
    TRY(const FileDescriptor inner, open_folder(folder, name, path_ + "/…/" + name));
    struct stat found {};
    if (::fstat(inner.get(), &found) != 0) return failed("looking at", name);
    if (found.st_dev != device_)
      return Error{Errc::Io, fmt::format("'{}' below '{}' is on another file system", name, path_),
                   "unmount it"};
    // A program may have made a folder that not even it may write.
    if (found.st_uid == file_user() && (found.st_mode & S_IRWXU) != S_IRWXU)
      (void)::fchmod(inner.get(), S_IRWXU);
    TRY_VOID(empty(inner.get(), depth + 1));
    if (::unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return Unit{};
    if (errno == ENOTEMPTY && moved_) return Unit{};  // the next round removes it
    return failed("removing the folder", name);
  }

  /// Move a folder that lies too deep to the top, where the next round removes it.
  Result<Unit> move_up(int folder, const char* name) {
    std::string top;
    do top = fmt::format(".deep-{}", ++moves_);
    while (::renameat(folder, name, root_, top.c_str()) != 0 &&
           (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) && moves_ < kMovesMax);
    if (::faccessat(root_, top.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0)
      return failed("moving", name);
    moved_ = true;
    return Unit{};
  }

  Error failed(std::string_view doing, const char* name) const {
    return path_error(doing, fmt::format("{}/…/{}", path_, name));
  }

  const int root_;
  const std::string& path_;
  const std::string_view keep_;
  dev_t device_ = 0;
  bool moved_ = false;
  int moves_ = 0;
};

}  // namespace

Result<Unit> make_own_folder(const std::string& path) {
  // Mark the folder before it gets its name, so that the name never exists without the mark.
  std::string fresh = join_path(parent_path(path), ".trainrun-XXXXXX");
  if (::mkdtemp(fresh.data()) == nullptr) return path_error("making the folder", path);
  const std::string mark = join_path(fresh, kOwnFolderMarker);
  const FileDescriptor file(
      ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  int failed = file.get() < 0 ? errno : 0;
  // If the file system lacks RENAME_NOREPLACE, rename() still refuses all targets except an empty
  // folder.
  if (failed == 0 &&
      ::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    failed = errno;
    if ((failed == EINVAL || failed == ENOSYS || failed == ENOTSUP) &&
        ::rename(fresh.c_str(), path.c_str()) == 0)
      failed = 0;
  }
  if (failed == 0) return Unit{};
  ::unlink(mark.c_str());
  ::rmdir(fresh.c_str());
  if (failed == ENOTEMPTY || failed == ENOTDIR) failed = EEXIST;
  return system_error(failed, fmt::format("making the folder '{}'", path));
}

Result<Unit> check_private_folder(const std::string& path) {
  TRY_VOID(open_ours(path));
  return Unit{};
}

Result<Unit> make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return path_error("making the folder", path);
  return check_private_folder(path);
}

Result<Unit> check_own_folder(const std::string& path) {
  TRY_VOID(open_marked(path));
  return Unit{};
}

Result<Unit> remove_folder_tree(const std::string& path) {
  auto folder = open_folder(AT_FDCWD, path.c_str(), path);
  if (folder.has_error()) {
    if (folder.error().code == Errc::NotFound) return Unit{};
    return folder.error();
  }
  TRY_VOID(check_no_home(folder->get(), path));
  TRY_VOID(Remover(folder->get(), path, {}).run());
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return path_error("removing the folder", path);
  return Unit{};
}

Result<bool> remove_own_folder(const std::string& path) {
  auto folder = open_marked(path);
  if (folder.has_error()) {
    if (folder.error().code == Errc::NotFound) return false;
    return folder.error();
  }
  TRY_VOID(check_no_home(folder->get(), path));
  TRY_VOID(Remover(folder->get(), path, kOwnFolderMarker).run());
  const std::string mark(kOwnFolderMarker);
  if (::unlinkat(folder->get(), mark.c_str(), 0) != 0)
    return path_error("removing the folder", path);
  if (::rmdir(path.c_str()) == 0) return true;
  // Something came into it meanwhile: mark it again, so that a later call may remove it.
  const int failed = errno;
  const FileDescriptor again(::openat(folder->get(), mark.c_str(),
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return system_error(failed, fmt::format("removing the folder '{}'", path));
}

}  // namespace train
