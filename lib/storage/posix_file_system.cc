#include "lib/storage/posix_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "lib/base/file_descriptor.h"
#include "lib/base/user_account.h"
#include "lib/storage/own_folder.h"

namespace train {
namespace {

// Start writing back after this many bytes, so that little is left for the fsync at the end of a
// large file. On ext4 with a 512 MiB copy this overlaps hashing with writing. It guarantees
// nothing; only fsync does.
constexpr std::uint64_t kWritebackBytes = 16 << 20;

Error path_error(std::string_view doing, const std::string& path) {
  return system_error(errno, fmt::format("{} '{}'", doing, path));
}

Result<FileDescriptor> open_file(std::string_view doing, const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0666);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return path_error(doing, path);
  return FileDescriptor(fd);
}

Result<Unit> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return path_error("writing", path);
    }
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return Unit{};
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(FileDescriptor fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<Unit> write(std::string_view bytes) override {
    TRY_VOID(write_all(fd_.get(), bytes, path_));
    unstarted_ += bytes.size();
    if (unstarted_ >= kWritebackBytes) {
      unstarted_ = 0;
      ::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    }
    return Unit{};
  }
  Result<Unit> sync() override {
    if (::fdatasync(fd_.get()) != 0) return path_error("syncing", path_);
    return Unit{};
  }
  Result<Unit> truncate(std::uint64_t bytes) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
      return path_error("truncating", path_);
    return Unit{};
  }

 private:
  FileDescriptor fd_;
  std::string path_;
  std::uint64_t unstarted_ = 0;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(FileDescriptor fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<std::size_t> read(char* buffer, std::size_t size) override {
    ssize_t got = -1;
    do {
      got = ::read(fd_.get(), buffer, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return path_error("reading", path_);
    return static_cast<std::size_t>(got);
  }
  void begin_sync() override { (void)::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE); }
  Result<Unit> sync() override {
    if (::fsync(fd_.get()) != 0) return path_error("syncing", path_);
    return Unit{};
  }

 private:
  FileDescriptor fd_;
  std::string path_;
};

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(FileDescriptor fd, std::string path, std::uint64_t inode)
      : fd_(std::move(fd)), path_(std::move(path)), inode_(inode) {}

  Result<Unit> describe(std::string_view text) override {
    if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0)
      return path_error("writing", path_);
    return write_all(fd_.get(), text, path_);
  }
  std::uint64_t inode() const override { return inode_; }

 private:
  FileDescriptor fd_;
  std::string path_;
  std::uint64_t inode_;
};

/// Return whether both are names of one file, so that whoever moved it was killed between link()
/// and unlink(). Leave errno as it is.
bool is_linked(const std::string& from, const std::string& to) {
  const int error_number = errno;
  struct stat first {};
  struct stat second {};
  const bool known = ::lstat(from.c_str(), &first) == 0 && ::lstat(to.c_str(), &second) == 0;
  errno = error_number;
  return known && first.st_dev == second.st_dev && first.st_ino == second.st_ino &&
         first.st_nlink > 1;
}

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::File;
  return S_ISDIR(mode) ? FileKind::Folder : FileKind::Other;
}

}  // namespace

Result<std::unique_ptr<WritableFile>> PosixFileSystem::create(const std::string& path) {
  TRY(auto fd, open_file("creating", path, O_WRONLY | O_CREAT | O_EXCL));
  return std::make_unique<PosixWritableFile>(std::move(fd), path);
}

Result<std::unique_ptr<WritableFile>> PosixFileSystem::open_to_append(const std::string& path) {
  TRY(auto fd, open_file("opening", path, O_WRONLY | O_APPEND));
  return std::make_unique<PosixWritableFile>(std::move(fd), path);
}

Result<std::unique_ptr<ReadableFile>> PosixFileSystem::open_to_read(const std::string& path) {
  // O_NONBLOCK, so that opening a FIFO does not hang; the flag has no effect on files.
  TRY(auto fd, open_file("opening", path, O_RDONLY | O_NONBLOCK));
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return path_error("reading the status of", path);
  if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode))  // for a folder, read() fails
    return Error{Errc::Io, fmt::format("'{}' is not a regular file", path)};
  return std::make_unique<PosixReadableFile>(std::move(fd), path);
}

Result<std::unique_ptr<FileLock>> PosixFileSystem::lock(const std::string& path) {
  TRY(auto fd, open_file("opening", path, O_RDWR | O_CREAT));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return Error{Errc::Unavailable, fmt::format("'{}' is locked by another process", path)};
    return path_error("locking", path);
  }
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return path_error("reading the status of", path);
  return std::make_unique<PosixFileLock>(std::move(fd), path, found.st_ino);
}

Result<Unit> PosixFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return path_error(fmt::format("renaming '{}' to", from), to);
  return Unit{};
}

Result<Unit> PosixFileSystem::rename_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
    return Unit{};
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    return path_error(fmt::format("renaming '{}' to", from), to);
  // NFS and some FUSE file systems lack RENAME_NOREPLACE. For a folder, plain rename() refuses any
  // target that is not empty, which is enough since the folders that we move never are empty. For a
  // file, link() is exclusive.
  TRY(const FileStatus status, this->status(from));
  if (status.kind == FileKind::Folder) {
    if (::rename(from.c_str(), to.c_str()) == 0) return Unit{};
    if (errno == ENOTEMPTY || errno == ENOTDIR) errno = EEXIST;
    return path_error(fmt::format("renaming '{}' to", from), to);
  }
  if (::link(from.c_str(), to.c_str()) != 0 && !(errno == EEXIST && is_linked(from, to)))
    return path_error(fmt::format("linking '{}' to", from), to);
  return remove_file(from);
}

Result<Unit> PosixFileSystem::make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) return path_error("making folder", path);
  return Unit{};
}

Result<Unit> PosixFileSystem::remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return path_error("removing", path);
  return Unit{};
}

Result<Unit> PosixFileSystem::remove_folder(const std::string& path) {
  if (::rmdir(path.c_str()) != 0) return path_error("removing folder", path);
  return Unit{};
}

Result<Unit> PosixFileSystem::remove_all(const std::string& path) {
  return remove_folder_tree(path);
}

Result<Unit> PosixFileSystem::sync_folder(const std::string& path) {
  // A storage_path may be a link to a folder, so only this call follows links.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return path_error("opening folder", path);
  if (::fsync(fd.get()) != 0) return path_error("syncing folder", path);
  return Unit{};
}

Result<FileStatus> PosixFileSystem::status(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return path_error("reading the status of", path);
  return FileStatus{kind_of(found.st_mode), static_cast<std::uint64_t>(found.st_size), found.st_ino,
                    found.st_uid != file_user()};
}

Result<std::vector<FolderEntry>> PosixFileSystem::list(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return path_error("listing", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(folder, &::closedir);
  std::vector<FolderEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat found {};
    if (::fstatat(::dirfd(folder), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed meanwhile
      return path_error("reading the status of", join_path(path, name));
    }
    entries.push_back({name, kind_of(found.st_mode)});
  }
  if (errno != 0) return path_error("listing", path);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Result<std::uint64_t> PosixFileSystem::free_bytes(const std::string& path) {
  struct statvfs found {};
  if (::statvfs(path.c_str(), &found) != 0) return path_error("reading the free space of", path);
  return static_cast<std::uint64_t>(found.f_bavail) * found.f_frsize;
}

Result<bool> PosixFileSystem::same_file_system(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  if (::stat(a.c_str(), &first) != 0) return path_error("reading the status of", a);
  if (::stat(b.c_str(), &second) != 0) return path_error("reading the status of", b);
  return first.st_dev == second.st_dev;
}

Result<PrivateReplacement> PrivateReplacement::begin(std::string path) {
  const std::string temporary = path + ".tmp";
  // A crash may have left this file. In a shared folder, another user may have made it; we do not
  // write into it.
  ::unlink(temporary.c_str());
  FileDescriptor file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return system_error(errno, "creating " + temporary);
  return PrivateReplacement(std::move(file), std::move(path));
}

Result<Unit> PrivateReplacement::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written > 0)
      bytes.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      return system_error(errno, "writing " + path_);
  }
  return Unit{};
}

Result<Unit> PrivateReplacement::finish() {
  if (::rename((path_ + ".tmp").c_str(), path_.c_str()) == 0) return Unit{};
  return system_error(errno, "writing " + path_);
}

Result<Unit> replace_private_file(const std::string& path, std::string_view text) {
  TRY(PrivateReplacement file, PrivateReplacement::begin(path));
  TRY_VOID(file.append(text));
  return file.finish();
}

}  // namespace train
