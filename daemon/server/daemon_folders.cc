#include "daemon/server/daemon_folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/server/supervisor_files.h"
#include "lib/storage/own_folder.h"

namespace train {

Result<Unit> take_folders(const DaemonFolders& folders) {
  for (const std::string& folder : {folders.runtime, folders.spool})
    TRY_VOID(make_private_folder(folder));
  const auto data = check_private_folder(folders.data);
  if (!data && data.error().code != Errc::NotFound) return data.error();
  return Unit{};
}

Result<Unit> make_user_folder(const std::string& folder, const UserAccount& account) {
  TRY_VOID(make_private_folder(folder));
  if (::chmod(folder.c_str(), 0711) != 0) return system_error(errno, "opening to users " + folder);
  const std::string own = user_folder(folder, account.uid);
  if (::mkdir(own.c_str(), 0700) == 0) {  // below a folder in which root alone can write
    if (::lchown(own.c_str(), account.uid, account.gid) != 0)
      return system_error(errno, "giving away " + own);
  } else if (errno != EEXIST) {
    return system_error(errno, "making " + own);
  }
  const ActAs himself(account);
  if (::access((own + "/.").c_str(), F_OK) != 0 && errno == EACCES)
    return Error{
        Errc::Permission, fmt::format("the user {} may not enter {}", account.name, own),
        "let others pass the folders above (chmod o+x), or name other places: --spool-dir, "
        "--data-dir"};
  return check_private_folder(own);
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
