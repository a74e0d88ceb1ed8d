#include "lib/net/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <deque>
#include <optional>
#include <utility>

#include "lib/net/hmac.h"

namespace train {
namespace {

constexpr int kLinksMax = 40;  // like the kernel's limit

bool is_ours_or_roots(uid_t owner) { return owner == ::geteuid() || owner == 0; }

enum class Readers { Owner, Anybody };

Result<Unit> check_file(const std::string& file, const std::string& path, Readers readers,
                        const struct stat& status) {
  if (!S_ISREG(status.st_mode))
    return Error{Errc::InvalidArgument, fmt::format("{} is not a regular file", file)};
  if (!is_ours_or_roots(status.st_uid)) {
    return Error{Errc::Permission,
                 fmt::format("{} belongs to uid {}, but must belong to uid {}", file, status.st_uid,
                             ::geteuid()),
                 fmt::format("chown {} {}", ::geteuid(), path)};
  }
  const mode_t refused = readers == Readers::Anybody ? 022 : status.st_uid == 0 ? 037 : 077;
  if ((status.st_mode & refused) != 0) {
    return Error{Errc::Permission,
                 fmt::format("{} has mode {:04o}, which gives others access; {} is required", file,
                             status.st_mode & 07777, readers == Readers::Anybody ? "0644" : "0600"),
                 fmt::format("chmod {} {}", readers == Readers::Anybody ? "644" : "600", path)};
  }
  return Unit{};
}

std::deque<std::string> parts_of(std::string_view path) {
  std::deque<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return parts;
}

/// Walks a path folder by folder, so that the file that it opens is the one that it checked.
class Walk {
 public:
  Walk(std::string_view what, const std::string& path, Readers readers)
      : path_(path),
        file_(fmt::format("{} {}", what, path)),
        readers_(readers),
        left_(parts_of(path)) {}

  Result<FileDescriptor> open() {
    TRY_VOID(enter(AT_FDCWD, path_.starts_with('/') ? "/" : "."));
    for (int links = 0; !left_.empty();) {
      const std::string name = std::exchange(left_.front(), {});
      left_.pop_front();
      struct stat status {};
      if (::fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return system_error(errno, "opening " + file_);
      // The owner of an entry in a folder with the sticky bit can change it; enter() checks the
      // other folders.
      if (!is_ours_or_roots(status.st_uid) && (S_ISLNK(status.st_mode) || !left_.empty()))
        note_writer(name, status);
      if (S_ISLNK(status.st_mode)) {
        if (++links > kLinksMax) return system_error(ELOOP, "opening " + file_);
        TRY_VOID(follow(name));
      } else if (!left_.empty()) {
        TRY_VOID(enter(folder_.get(), name.c_str()));
      } else {
        return open_file(name);
      }
    }
    return Error{Errc::InvalidArgument, fmt::format("{} is not a regular file", file_)};
  }

 private:
  Result<Unit> enter(int from, const char* name) {
    FileDescriptor next(::openat(from, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (next.get() < 0) return system_error(errno, "opening " + file_);
    struct stat status {};
    if (::fstat(next.get(), &status) != 0) return system_error(errno, "looking at " + file_);
    const bool shared = (status.st_mode & 022) != 0 && (status.st_mode & S_ISVTX) == 0;
    if (shared || !is_ours_or_roots(status.st_uid)) note_writer(name, status);
    folder_ = std::move(next);
    return Unit{};
  }

  Result<Unit> follow(const std::string& name) {
    char target[PATH_MAX];
    const ssize_t size = ::readlinkat(folder_.get(), name.c_str(), target, sizeof target);
    if (size < 0) return system_error(errno, "opening " + file_);
    const std::string_view text(target, static_cast<std::size_t>(size));
    link_ = name;
    auto parts = parts_of(text);
    left_.insert(left_.begin(), parts.begin(), parts.end());
    if (text.starts_with('/')) return enter(AT_FDCWD, "/");
    return Unit{};
  }

  void note_writer(std::string_view name, const struct stat& status) {
    if (!others_write_)
      others_write_ =
          fmt::format("'{}' (uid {}, mode {:04o})", name, status.st_uid, status.st_mode & 07777);
  }

  Result<FileDescriptor> open_file(const std::string& name) {
    if (link_ && others_write_) {
      return Error{
          Errc::Permission,
          fmt::format("{} is reached through the link '{}', and others can change {} on that path",
                      file_, *link_, *others_write_),
          "name the file itself"};
    }
    // O_NONBLOCK, so that opening does not wait if it is a FIFO.
    FileDescriptor file(
        ::openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() < 0) return system_error(errno, "opening " + file_);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return system_error(errno, "looking at " + file_);
    TRY_VOID(check_file(file_, path_, readers_, status));
    return file;
  }

  const std::string path_, file_;
  const Readers readers_;
  std::deque<std::string> left_;
  FileDescriptor folder_;
  std::optional<std::string> link_, others_write_;
};

/// Read the file into `out`; InvalidArgument if the file is longer.
Result<std::size_t> read_all(int file, const std::string& name, char* out, std::size_t bytes_max) {
  std::size_t size = 0;
  for (;;) {
    char beyond = 0;
    const bool full = size == bytes_max;
    const ssize_t count = ::read(file, full ? &beyond : out + size, full ? 1 : bytes_max - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "reading " + name);
    if (count == 0) return size;
    if (full)
      return Error{Errc::InvalidArgument,
                   fmt::format("{} has more than {} bytes", name, bytes_max)};
    size += static_cast<std::size_t>(count);
  }
}

}  // namespace

Result<FileDescriptor> open_secret_file(std::string_view what, const std::string& path) {
  return Walk(what, path, Readers::Owner).open();
}

SecretText::~SecretText() { wipe(bytes_.data(), bytes_.size()); }

Result<SecretText> read_secret_file(std::string_view what, const std::string& path,
                                    std::size_t bytes_max) {
  TRY(const FileDescriptor file, open_secret_file(what, path));
  SecretText secret(bytes_max);
  TRY(secret.size_,
      read_all(file.get(), fmt::format("{} {}", what, path), secret.bytes_.data(), bytes_max));
  return secret;
}

Result<std::string> read_trusted_file(std::string_view what, const std::string& path,
                                      std::size_t bytes_max) {
  TRY(const FileDescriptor file, Walk(what, path, Readers::Anybody).open());
  std::string text(bytes_max, '\0');
  TRY(const std::size_t size,
      read_all(file.get(), fmt::format("{} {}", what, path), text.data(), bytes_max));
  text.resize(size);
  return text;
}

Result<Unit> create_secret_file(std::string_view what, const std::string& path,
                                std::string_view bytes, mode_t mode) {
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (file.get() < 0 && errno == EEXIST) {
    return Error{Errc::AlreadyExists,
                 fmt::format("{} exists already; a {} is never overwritten", path, what),
                 "name a new file"};
  }
  if (file.get() < 0) return system_error(errno, fmt::format("creating {} {}", what, path));
  const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
  int failed = written < 0 ? errno : written == static_cast<ssize_t>(bytes.size()) ? 0 : ENOSPC;
  if (failed == 0 && ::fsync(file.get()) != 0) failed = errno;
  if (failed == 0) return Unit{};
  ::unlink(path.c_str());
  return system_error(failed, fmt::format("writing {} {}", what, path));
}

}  // namespace train
