#include "lib/base/helper_program.h"

#include <unistd.h>

#include <array>

namespace train {
namespace {

std::string folder_of_this_program() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) return "";
  const std::string program(path.data(), static_cast<std::size_t>(size));
  return program.substr(0, program.rfind('/'));
}

}  // namespace

std::string find_helper_program(const std::string& name) {
  const std::string folder = folder_of_this_program();
  for (const char* place : {"/../libexec/trainrun/", "/", "/../bin/"}) {
    std::string path = folder + place + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace train
