#include "lib/base/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace train {
namespace {

rlimit began_with{};
bool raised = false;

}  // namespace

void raise_open_files() {
  if (raised || ::getrlimit(RLIMIT_NOFILE, &began_with) != 0) return;
  const rlimit most{began_with.rlim_max, began_with.rlim_max};
  raised = ::setrlimit(RLIMIT_NOFILE, &most) == 0;
}

void restore_open_files() {
  if (raised) ::setrlimit(RLIMIT_NOFILE, &began_with);
}

void ReservedFiles::release() {
  for (const int file : files_) ::close(file);
  files_.clear();
}

void ReservedFiles::refill() {
  while (static_cast<int>(files_.size()) < count_) {
    const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    files_.push_back(file);
  }
}

}  // namespace train
