#include "lib/transfer/open_beneath.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "lib/storage/manifest.h"

namespace train {
namespace {

Error refused(const std::string& base, const std::string& relative, std::string_view why) {
  return Error{Errc::InvalidArgument, fmt::format("refusing to serve '{}' below '{}': {}",
                                                  escape_name(relative), base, why)};
}

}  // namespace

// Open component by component. openat2(RESOLVE_BENEATH) would need one call, but some kernels and
// containers lack it.
Result<FileDescriptor> open_beneath(const std::string& base, const std::string& relative) {
  FileDescriptor at(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return system_error(errno, fmt::format("opening '{}'", base));
  std::string_view rest = relative;
  while (true) {
    const auto slash = rest.find('/');
    const std::string name(rest.substr(0, slash));
    if (name.empty() || name == "." || name == ".." || name.find('\0') != std::string::npos)
      return refused(base, relative, "a bad name");
    const bool last = slash == std::string_view::npos;
    // O_NONBLOCK, so that a FIFO cannot make us hang.
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    FileDescriptor next(::openat(at.get(), name.c_str(), flags));
    if (next.get() < 0) {
      if (errno == ELOOP || errno == ENOTDIR)
        return refused(base, relative, "its path contains a link");
      return system_error(errno, fmt::format("opening '{}/{}'", base, escape_name(relative)));
    }
    at = std::move(next);
    if (last) break;
    rest.remove_prefix(slash + 1);
  }
  struct stat found {};
  if (::fstat(at.get(), &found) != 0 || !S_ISREG(found.st_mode))
    return refused(base, relative, "not a plain file");
  return at;
}

Result<FilePiece> read_beneath(const std::string& base, const std::string& relative,
                               std::uint64_t offset, std::size_t bytes) {
  TRY(const FileDescriptor file, open_beneath(base, relative));
  struct stat found {};
  if (::fstat(file.get(), &found) != 0)
    return system_error(errno, fmt::format("reading the status of '{}/{}'", base, relative));
  FilePiece piece{.data = {}, .size = static_cast<std::uint64_t>(found.st_size)};
  if (offset >= piece.size) return piece;
  piece.data.resize(std::min<std::uint64_t>(bytes, piece.size - offset));
  std::size_t done = 0;
  while (done < piece.data.size()) {
    const ssize_t got = ::pread(file.get(), piece.data.data() + done, piece.data.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, fmt::format("reading '{}/{}'", base, relative));
    if (got == 0) break;  // the file was truncated meanwhile
    done += static_cast<std::size_t>(got);
  }
  piece.data.resize(done);
  return piece;
}

}  // namespace train
