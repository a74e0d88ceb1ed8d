#include "lib/base/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace train {

Result<Unit> write_all(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno, "writing " + path);
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return Unit{};
}

}  // namespace train
