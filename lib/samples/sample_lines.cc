#include "lib/samples/sample_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/samples/sample_json.h"
#include "lib/samples/sample_reader.h"

namespace train {
namespace {

constexpr std::size_t kReadBytes = 1u << 20;

}  // namespace

Result<Unit> for_each_line(const std::string& path,
                           const std::function<void(std::string_view, std::uint64_t)>& take) {
  // Without waiting: a program of the run may have put a FIFO there.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return Unit{};
  if (file.get() < 0) return system_error(errno, "opening " + path);
  return for_each_line(file, path, take);
}

Result<Unit> for_each_line(const FileDescriptor& file, const std::string& path,
                           const std::function<void(std::string_view, std::uint64_t)>& take) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(errno, "opening " + path);
  if (!S_ISREG(status.st_mode)) return Error{Errc::Io, path + " is not a regular file"};
  std::string pending;
  std::string piece(kReadBytes, '\0');
  bool too_long = false;
  std::uint64_t begins = 0;  // where the line does
  for (std::uint64_t offset = 0; offset < kSampleFileBytesMax;) {
    const ssize_t got = ::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "reading " + path);
    if (got == 0) break;
    std::string_view rest(piece.data(), static_cast<std::size_t>(got));
    offset += rest.size();
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      const std::string_view line = rest.substr(0, end);
      if (!too_long) take(pending.empty() ? line : std::string_view(pending.append(line)), begins);
      pending.clear();
      too_long = false;
      rest.remove_prefix(end + 1);
      begins = offset - rest.size();
    }
    too_long = too_long || pending.size() + rest.size() > kSampleLineBytesMax;
    if (!too_long) pending += rest;
  }
  return Unit{};
}

}  // namespace train
