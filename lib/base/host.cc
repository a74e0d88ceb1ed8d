#include "lib/base/host.h"

#include <unistd.h>

namespace train {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace train
