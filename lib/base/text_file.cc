#include "lib/base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lib/base/file_descriptor.h"

namespace train {

std::string read_text(const std::string& path) {
  const auto text = read_text_from(path, 0);
  return text ? *text : "";
}

Result<std::string> read_text_from(const std::string& path, std::uint64_t offset) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "opening '" + path + "'");
  if (offset > 0 && ::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) < 0)
    return system_error(errno, "reading '" + path + "'");
  std::string text;
  for (std::array<char, 65536> part;;) {
    const ssize_t size = ::read(file.get(), part.data(), part.size());
    if (size == 0) return text;
    if (size > 0)
      text.append(part.data(), static_cast<std::size_t>(size));
    else if (errno != EINTR)
      return system_error(errno, "reading '" + path + "'");
  }
}

}  // namespace train
