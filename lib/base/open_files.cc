#include "lib/base/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace train {
namespace {

rlimit began_with{};
bool raised = false;

bool raise_to_the_hard_limit() {
  const rlimit most{began_with.rlim_max, began_with.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &most) == 0;
}

}  // namespace

void raise_open_files() {
  if (raised || ::getrlimit(RLIMIT_NOFILE, &began_with) != 0) return;
  raised = raise_to_the_hard_limit();
}

void restore_open_files() {
  if (raised) ::setrlimit(RLIMIT_NOFILE, &began_with);
}

InitialOpenFiles::~InitialOpenFiles() {
  if (raised) raise_to_the_hard_limit();
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
