#include "launcher/cluster/run/folder_owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/base/file_descriptor.h"

namespace train {
namespace {

/// Return the owner of a file that we make in this folder. On some file systems (NFS with
/// root_squash, CIFS) that is somebody else, who also owns the folder itself. The owner then does
/// not distinguish us from others.
Result<uid_t> owner_of_new_files(const std::string& folder, uid_t owner) {
  if (owner == ::geteuid()) return owner;
  std::string path = folder + "/.whose-XXXXXX";
  const FileDescriptor probe(::mkostemp(path.data(), O_CLOEXEC));
  if (probe.get() < 0) return ::geteuid();
  struct stat found {};
  const int looked = ::fstat(probe.get(), &found);
  ::unlink(path.c_str());
  if (looked != 0) return system_error(errno, "looking at " + path);
  return found.st_uid;
}

}  // namespace

Result<Unit> check_folder_owner(const std::string& path, const std::string& whose) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return system_error(errno, "looking at " + path);
  if (!S_ISDIR(found.st_mode))
    return Error{Errc::Permission, fmt::format("'{}' is not a directory", path),
                 "give run_config.name another value, or remove it"};
  TRY(const uid_t ours, owner_of_new_files(path, found.st_uid));
  if (found.st_uid != ours) {
    return Error{Errc::Permission,
                 fmt::format("{} belongs to uid {}, not to uid {}, and cannot be resumed: {}",
                             whose, found.st_uid, ::geteuid(), path),
                 "only its owner can resume a run; give run_config.name another value"};
  }
  if ((found.st_mode & S_IWOTH) != 0) {
    return Error{Errc::Permission,
                 fmt::format("anyone can write to the folder of {}: {}", whose, path),
                 "chmod o-w " + path + ", if its files have not been tampered with"};
  }
  return Unit{};
}

}  // namespace train
