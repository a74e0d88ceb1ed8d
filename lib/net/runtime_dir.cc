#include "lib/net/runtime_dir.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace train {

std::string default_runtime_dir() {
  if (::geteuid() == 0) return "/run/trainrun";
  if (const char* dir = std::getenv("XDG_RUNTIME_DIR"); dir != nullptr && *dir != '\0')
    return std::string(dir) + "/trainrun";
  return fmt::format("/tmp/trainrun-{}", ::geteuid());
}

Endpoint control_endpoint(const std::string& runtime_dir) {
  return Endpoint::unix_socket(runtime_dir + "/control.sock");
}

}  // namespace train
