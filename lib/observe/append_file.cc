#include "lib/observe/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace train {
namespace {

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<Unit> sync_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(errno, "opening " + folder);
  const int failed = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (failed != 0) return system_error(failed, "syncing " + folder);
  return Unit{};
}

// Write `data` from `from` on. Advances `from` by the bytes written, even on an error. Return 0, or
// errno.
int write_from(int fd, const std::string& data, std::size_t& from) {
  while (from < data.size()) {
    const ssize_t count = ::write(fd, data.data() + from, data.size() - from);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    from += static_cast<std::size_t>(count);
  }
  return 0;
}

}  // namespace

AppendFile::AppendFile(AppendFile&& other) noexcept { *this = std::move(other); }

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(buffer_, other.buffer_);
  std::swap(fd_, other.fd_);
  std::swap(dirty_, other.dirty_);
  std::swap(name_is_synced_, other.name_is_synced_);
  return *this;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<AppendFile> AppendFile::open(std::string path) {
  AppendFile file;
  const bool is_new = ::access(path.c_str(), F_OK) != 0;
  // Without waiting: a program of the run may have put a FIFO there.
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file.fd_ < 0) return system_error(errno, "opening " + path);
  struct stat found {};
  if (::fstat(file.fd_, &found) != 0) return system_error(errno, "reading the state of " + path);
  if (!S_ISREG(found.st_mode)) return Error{Errc::Io, path + " is not a regular file"};
  file.name_is_synced_ = !is_new;
  file.path_ = std::move(path);
  return file;
}

bool AppendFile::is_at_path() const {
  struct stat ours {};
  struct stat there {};
  return ::fstat(fd_, &ours) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

Result<Unit> AppendFile::truncate(std::uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
    return system_error(errno, "truncating " + path_);
  dirty_ = true;
  return Unit{};
}

Result<Unit> AppendFile::flush() {
  if (buffer_.empty()) return Unit{};
  std::size_t written = 0;
  const int failed = write_from(fd_, buffer_, written);
  dirty_ = dirty_ || written > 0;
  if (failed == 0) {
    buffer_.clear();
    return Unit{};
  }
  buffer_.erase(0, written);
  return system_error(failed, "writing " + path_);
}

Result<Unit> AppendFile::sync() {
  TRY_VOID(flush());
  if (!dirty_) return Unit{};
  if (::fdatasync(fd_) != 0) return system_error(errno, "syncing " + path_);
  if (!name_is_synced_) TRY_VOID(sync_folder_of(path_));
  name_is_synced_ = true;
  dirty_ = false;
  return Unit{};
}

Result<std::uint64_t> AppendFile::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return system_error(errno, "reading the state of " + path_);
  return static_cast<std::uint64_t>(info.st_size);
}

Result<Unit> replace_file(const std::string& path, const std::string& content) {
  const std::string beside = path + ".tmp";
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return system_error(errno, "opening " + beside);
  std::size_t written = 0;
  int failed = write_from(fd, content, written);
  if (failed == 0 && ::fdatasync(fd) != 0) failed = errno;
  ::close(fd);
  if (failed != 0) {
    ::unlink(beside.c_str());
    return system_error(failed, "writing " + beside);
  }
  if (::rename(beside.c_str(), path.c_str()) != 0)
    return system_error(errno, "renaming " + beside + " to " + path);
  return sync_folder_of(path);
}

Result<std::string> read_file_or_empty(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::string();
  if (fd < 0) return system_error(errno, "opening " + path);
  std::string content;
  struct stat info {};
  if (::fstat(fd, &info) == 0) content.reserve(static_cast<std::size_t>(info.st_size));
  std::string chunk(1u << 16, '\0');
  for (;;) {
    const ssize_t count = ::read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    const int failed = count < 0 ? errno : 0;
    if (count <= 0) {
      ::close(fd);
      if (failed != 0) return system_error(failed, "reading " + path);
      return content;
    }
    content.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace train
