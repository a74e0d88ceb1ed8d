#include "launcher/dashboard/folder_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "lib/transfer/open_beneath.h"

namespace train {
namespace {

Result<FileStamp> stamp_of(const FileDescriptor& file, const std::string& name) {
  struct stat found {};
  if (::fstat(file.get(), &found) != 0)
    return system_error(errno, fmt::format("looking at '{}'", name));
  return FileStamp{
      .inode = found.st_ino,
      .bytes = static_cast<std::uint64_t>(found.st_size),
      .changed_ns = std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

/// Open a folder below `base`, component by component, through no link.
FileDescriptor open_folder(const std::string& base, std::string_view name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  FileDescriptor at(::open(base.c_str(), kFlags));
  while (at.get() >= 0 && !name.empty()) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    const std::string part(name.substr(0, slash));
    name.remove_prefix(std::min(slash + 1, name.size()));
    if (part.empty() || part == "." || part == "..") return FileDescriptor();
    at = FileDescriptor(::openat(at.get(), part.c_str(), kFlags | O_NOFOLLOW));
  }
  return at;
}

}  // namespace

FolderFiles::FolderFiles(std::string place, std::string below)
    : place_(std::move(place)),
      below_(std::move(below)),
      folder_(below_.empty() ? place_ : place_ + "/" + below_) {}

std::string FolderFiles::beneath(const std::string& name) const {
  return below_.empty() || name.empty() ? below_ + name : below_ + "/" + name;
}

Result<FileDescriptor> FolderFiles::open(const std::string& name) const {
  return open_beneath(place_, beneath(name));
}

std::optional<FileStamp> FolderFiles::stamp(const std::string& name) const {
  const auto file = open(name);
  if (!file) return std::nullopt;
  const auto stamp = stamp_of(*file, name);
  return stamp ? std::optional(*stamp) : std::nullopt;
}

Result<FileRead> FolderFiles::read(const std::string& name, std::uint64_t offset,
                                   std::size_t bytes_max) const {
  TRY(const FileDescriptor file, open(name));
  FileRead read;
  TRY(read.stamp, stamp_of(file, name));
  if (offset >= read.stamp.bytes) return read;
  read.text.resize(std::min<std::uint64_t>(bytes_max, read.stamp.bytes - offset));
  std::size_t done = 0;
  while (done < read.text.size()) {
    const ssize_t got = ::pread(file.get(), read.text.data() + done, read.text.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, fmt::format("reading '{}/{}'", folder_, name));
    if (got == 0) break;  // the file was truncated meanwhile
    done += static_cast<std::size_t>(got);
  }
  read.text.resize(done);
  return read;
}

Result<FileRead> FolderFiles::read_whole(const std::string& name, std::size_t bytes_max) const {
  TRY(FileRead read, this->read(name, 0, bytes_max));
  if (read.stamp.bytes > bytes_max)
    return Error{Errc::ResourceExhausted, fmt::format("'{}/{}' has {} bytes, more than {}", folder_,
                                                      name, read.stamp.bytes, bytes_max)};
  return read;
}

std::vector<std::string> FolderFiles::list(const std::string& name) const {
  std::vector<std::string> names;
  FileDescriptor folder = open_folder(place_, beneath(name));
  if (folder.get() < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(folder.get()), ::closedir);
  if (entries == nullptr) return names;
  (void)folder.release();  // closedir() closes it
  while (const dirent* entry = ::readdir(entries.get())) {
    if (entry->d_name[0] == '.') continue;
    names.emplace_back(entry->d_name);
    if (names.size() == kEntriesMax) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool FolderFiles::is_folder(const std::string& name) const {
  return open_folder(place_, beneath(name)).get() >= 0;
}

bool FolderFiles::is_locked() const {
  const auto lock = open(".lock");
  if (!lock) return false;
  return ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::optional<std::uint32_t> FolderFiles::owner() const {
  const FileDescriptor folder = open_folder(place_, below_);
  struct stat found {};
  if (folder.get() < 0 || ::fstat(folder.get(), &found) != 0) return std::nullopt;
  return found.st_uid;
}

}  // namespace train
