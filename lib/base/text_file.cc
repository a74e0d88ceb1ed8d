#include "lib/base/text_file.h"

#include <fcntl.h>

#include <array>
#include <cerrno>

#include "lib/base/file_descriptor.h"

namespace train {

std::string read_text(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return "";
  std::string text;
  for (std::array<char, 65536> part;;) {
    const ssize_t size = ::read(file.get(), part.data(), part.size());
    if (size == 0) return text;
    if (size > 0)
      text.append(part.data(), static_cast<std::size_t>(size));
    else if (errno != EINTR)
      return "";
  }
}

}  // namespace train
