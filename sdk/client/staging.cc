#include "sdk/client/staging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "lib/base/quota.h"
#include "lib/storage/manifest.h"

namespace train::sdk {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kProbeBytes = 64 << 10;  // names and other writers use up a smaller rest

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

std::string shown(const fs::path& path) { return fmt::format("'{}'", path.native()); }

/// Return how much this user may still write there.
std::optional<std::uint64_t> free_bytes(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return std::nullopt;
  return ::geteuid() == 0 ? space.free : space.available;
}

Result<Unit> copy_by_reading(int from, int to, const fs::path& path) {
  std::array<char, 256 << 10> buffer;
  while (true) {
    const ssize_t got = ::read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, fmt::format("reading {}", shown(path)));
    if (got == 0) return Unit{};
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::write(to, buffer.data() + done, static_cast<std::size_t>(got - done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0)
        return system_error(errno, fmt::format("copying {} to the staging folder", shown(path)));
      done += put;
    }
  }
}

Result<Unit> copy_bytes(int from, int to, const fs::path& path) {
  if (::ioctl(to, FICLONE, from) == 0) return Unit{};
  while (true) {
    const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, 1u << 30, 0);
    if (copied == 0) break;
    if (copied > 0 || errno == EINTR) continue;
    if (errno == ENOSPC || errno == EDQUOT || errno == EIO) {
      return system_error(errno, fmt::format("copying {} to the staging folder", shown(path)));
    }
    break;  // EXDEV, EINVAL, ENOSYS, EOPNOTSUPP: these file systems do not support it
  }
  // Copy what copy_file_range left: nothing, or everything (some kernels return 0 for files of
  // /proc and FUSE).
  return copy_by_reading(from, to, path);
}

Result<Unit> copy_one_file(const fs::path& from, const fs::path& to) {
  const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (source.fd < 0) return system_error(errno, fmt::format("opening {}", shown(from)));
  const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (target.fd < 0) return system_error(errno, fmt::format("creating {}", shown(to)));
  return copy_bytes(source.fd, target.fd, from);
}

// Check before anything is copied or moved, so that a refusal leaves the caller's folder unchanged.
Result<Unit> check_tree(const fs::path& from) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(from, error);
  if (!fs::exists(status))
    return Error{Errc::NotFound,
                 fmt::format("the checkpoint's folder {} does not exist", shown(from)),
                 "each rank reports a folder of its own: one that was moved is gone"};
  if (!fs::is_directory(status))
    return Error{Errc::InvalidArgument, fmt::format("{} is not a directory", shown(from))};
  for (auto it = fs::recursive_directory_iterator(from, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().filename().native().starts_with('.')) {
      it.disable_recursion_pending();
      continue;
    }
    const fs::file_type type = it->symlink_status(error).type();
    if (type != fs::file_type::regular && type != fs::file_type::directory) {
      return Error{Errc::InvalidArgument,
                   fmt::format("{} is neither a file nor a folder", shown(it->path())),
                   "a checkpoint holds only files and folders; copy what a link points to"};
    }
  }
  if (error) return system_error(error.value(), fmt::format("listing {}", shown(from)));
  return Unit{};
}

/// Refuse to move a folder that belongs to a committed checkpoint, or that contains the run's
/// checkpoints.
Result<Unit> check_movable(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path folder = fs::canonical(from, error);
  for (fs::path above = folder; !error && above.has_relative_path(); above = above.parent_path()) {
    std::error_code ignored;
    if (!fs::exists(above / kManifestName, ignored)) continue;
    return Error{Errc::InvalidArgument,
                 fmt::format("{} belongs to the committed checkpoint {}, which is not moved",
                             shown(from), shown(above)),
                 "report a copy of it: Checkpoint::from_directory and Upload::Async"};
  }
  if (error) return system_error(error.value(), fmt::format("looking at {}", shown(from)));
  const fs::path inside = fs::weakly_canonical(to, error).lexically_relative(folder);
  if (inside.empty() || *inside.begin() == "..") return Unit{};
  return Error{
      Errc::InvalidArgument,
      fmt::format("{} holds the run's checkpoints, and cannot be moved into one", shown(from)),
      "report a folder with nothing but the files of this checkpoint"};
}

enum class Moved { Yes, OtherFileSystem };

/// Rename `from` to `to`. On failure, `to` does not exist.
Result<Moved> try_rename(const fs::path& from, const fs::path& to) {
  TRY_VOID(check_tree(from));
  TRY_VOID(check_movable(from, to));
  TRY_VOID(make_empty_folder(to));
  if (::rename(from.c_str(), to.c_str()) == 0) return Moved::Yes;  // replaces the empty folder
  const int failed = errno;
  remove_folder(to);
  if (failed == EXDEV) return Moved::OtherFileSystem;
  return system_error(failed, fmt::format("moving {} to the staging folder", shown(from)));
}

Result<Unit> copy_entries(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(from, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().filename().native().starts_with('.')) {
      it.disable_recursion_pending();
      continue;
    }
    const fs::path target = to / it->path().lexically_relative(from);
    if (it->is_directory(error)) {
      if (::mkdir(target.c_str(), 0777) != 0)
        return system_error(errno, fmt::format("making {}", shown(target)));
    } else if (!error) {
      TRY_VOID(copy_one_file(it->path(), target));
    }
  }
  if (error) return system_error(error.value(), fmt::format("listing {}", shown(from)));
  return Unit{};
}

}  // namespace

Result<Unit> make_empty_folder(const fs::path& to) {
  std::error_code error;
  fs::remove_all(to, error);
  if (!error) fs::create_directories(to, error);
  if (error)
    return system_error(error.value(), fmt::format("making the staging folder {}", shown(to)));
  return Unit{};
}

void remove_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

Result<Unit> copy_tree(const fs::path& from, const fs::path& to) {
  TRY_VOID(check_tree(from));
  TRY_VOID(make_empty_folder(to));
  auto copied = copy_entries(from, to);
  if (!copied.has_error()) return copied;
  remove_folder(to);  // the copy's own error says more than a failed removal
  Error error = std::move(copied).error();
  if (error.code == Errc::NoSpace)
    error.message += fmt::format(": the checkpoint has {} bytes", bytes_below(from));
  return with_free_space(std::move(error), to);
}

Result<Unit> move_tree(const fs::path& from, const fs::path& to) {
  TRY(const Moved moved, try_rename(from, to));
  if (moved == Moved::Yes) return Unit{};
  TRY_VOID(copy_tree(from, to));
  std::error_code error;
  fs::remove_all(from, error);
  // Keep the copy: some of its files exist nowhere else by now.
  if (error) {
    std::fprintf(stderr,
                 "trainrun: the checkpoint's folder %s was copied, but cannot be removed: %s "
                 "(remove what is left of it)\n",
                 shown(from).c_str(), error.message().c_str());
  }
  return Unit{};
}

Result<Unit> rename_tree(const fs::path& from, const fs::path& to) {
  TRY(const Moved moved, try_rename(from, to));
  if (moved == Moved::Yes) return Unit{};
  return Error{
      Errc::InvalidArgument,
      fmt::format("{} is in another file system than the run's checkpoints ({}): it cannot "
                  "become one without a copy",
                  shown(from), shown(to.parent_path())),
      "write it below train::get_context().storage_path(), or report it with "
      "Upload::Async, which copies"};
}

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code unread;
    const bool is_file = it->symlink_status(unread).type() == fs::file_type::regular;
    const std::uintmax_t size = is_file ? it->file_size(unread) : 0;
    if (!unread) bytes += size;
  }
  return bytes;
}

Result<Unit> check_free_space(const fs::path& folder) {
  const fs::path path = folder / ".free-space";
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  int failed = file.fd < 0 ? errno : 0;
  const std::string bytes(kProbeBytes, '\0');
  for (std::size_t done = 0; failed == 0 && done < bytes.size();) {
    const ssize_t put = ::write(file.fd, bytes.data() + done, bytes.size() - done);
    if (put >= 0)
      done += static_cast<std::size_t>(put);
    else if (errno != EINTR)
      failed = errno;
  }
  ::unlink(path.c_str());
  if (failed != ENOSPC && failed != EDQUOT) return Unit{};
  return system_error(failed, fmt::format("writing into {}", shown(folder)));
}

Error with_free_space(Error error, const fs::path& staged) {
  if (says_over_quota(error.message)) {
    error.hint = kOverQuotaHint;
    return error;
  }
  const fs::path folder = staged.parent_path();
  const auto free = error.code == Errc::NoSpace ? free_bytes(folder) : std::nullopt;
  if (!free) return error;
  error.message += fmt::format(", {} are free in {}", *free, shown(folder));
  error.hint = "free some space, or lower checkpoint_config.num_to_keep";
  return error;
}

}  // namespace train::sdk
