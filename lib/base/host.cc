#include "lib/base/host.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace train {

std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  passwd entry{}, *known = nullptr;
  char text[4096];
  const bool found = ::getpwuid_r(::geteuid(), &entry, text, sizeof text, &known) == 0 &&
                     known != nullptr && *known->pw_dir != '\0';
  return found ? known->pw_dir : "/nonexistent";
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace train
