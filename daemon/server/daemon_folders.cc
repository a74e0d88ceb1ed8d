#include "daemon/server/daemon_folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/server/supervisor_files.h"
#include "lib/base/file_descriptor.h"
#include "lib/storage/own_folder.h"

namespace train {

Result<Unit> take_folders(const DaemonFolders& folders) {
  for (const std::string& folder : {folders.runtime, folders.spool})
    TRY_VOID(make_private_folder(folder));
  const auto data = check_private_folder(folders.data);
  if (!data && data.error().code != Errc::NotFound) return data.error();
  return Unit{};
}

namespace {

Result<FileDescriptor> open_folder(const std::string& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) return system_error(errno, "opening " + path);
  return folder;
}

/// Let other users traverse the folder, whatever else its mode allows.
Result<Unit> allow_traversal(const std::string& path) {
  TRY(const FileDescriptor folder, open_folder(path));
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0 ||
      ((found.st_mode & 0011) != 0011 &&
       ::fchmod(folder.get(), (found.st_mode & 07777) | 0011) != 0))
    return system_error(errno, "letting other users traverse " + path);
  return Unit{};
}

}  // namespace

// Only root can create or rename entries of `folder`. traind starts even if the user has changed
// the mode of the user's folder.
Result<Unit> make_user_folder(const std::string& folder, const UserAccount& account) {
  TRY_VOID(make_private_folder(folder));
  TRY_VOID(allow_traversal(folder));
  const std::string own = user_folder(folder, account.uid);
  if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(errno, "making " + own);
  {
    TRY(const FileDescriptor opened, open_folder(own));
    struct stat found {};
    if (::fstat(opened.get(), &found) != 0) return system_error(errno, "looking at " + own);
    if (found.st_uid != account.uid && found.st_uid != ::geteuid())
      return Error{
          Errc::Permission,
          fmt::format("'{}' belongs to uid {}, not to {}", own, found.st_uid, account.name),
          "move it away, or name other places: --spool-dir, --data-dir"};
    if (::fchown(opened.get(), account.uid, account.gid) != 0 || ::fchmod(opened.get(), 0700) != 0)
      return system_error(errno, fmt::format("giving {} to {}", own, account.name));
  }
  const ActAs user(account);
  if (const auto usable = open_folder(own); !usable)
    return Error{Errc::Permission, fmt::format("the user {} may not enter {}", account.name, own),
                 "let other users traverse the folders above (chmod o+x), or name other places: "
                 "--spool-dir, --data-dir"};
  return Unit{};
}

Result<Unit> lock_runtime_folder(const std::string& runtime) {
  const std::string path = runtime + "/traind.lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error(errno, "opening " + path);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  if (::fcntl(fd, F_SETLK, &lock) == 0) return Unit{};
  const int error = errno;
  if ((error != EACCES && error != EAGAIN) || ::fcntl(fd, F_GETLK, &lock) != 0)
    return system_error(error, "locking " + path);
  return Error{
      Errc::AlreadyExists,
      fmt::format("another traind uses the runtime folder {} (pid {})", runtime, lock.l_pid),
      "give each its own --runtime-dir and --spool-dir"};
}

}  // namespace train
