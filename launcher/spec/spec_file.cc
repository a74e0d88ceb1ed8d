#include "launcher/spec/spec_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace train::spec {
namespace {
constexpr std::size_t kBytesMax = 1 << 20;
constexpr std::string_view kElfMagic =
    "\x7f"
    "ELF";

Error program_error(const std::string& path, const std::string& command) {
  return {Errc::InvalidArgument, fmt::format("{} is a program, not a spec", path),
          fmt::format("to run it, write train-run -n WORKERS -- {}", command)};
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};
}  // namespace

Result<std::string> read_spec_file(const std::string& path) {
  if (path.ends_with(".py")) return program_error(path, "python3 " + path);
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return system_error(errno, path);
  std::string text;
  char buffer[16 * 1024];
  while (true) {
    const ssize_t got = ::read(file.fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, path);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.starts_with(kElfMagic)) return program_error(path, path);
    if (text.size() > kBytesMax) {
      return Error{Errc::ResourceExhausted,
                   fmt::format("{} has more than {} bytes", path, kBytesMax),
                   "keep data in files of its own, and name them in the spec"};
    }
  }
}

}  // namespace train::spec
