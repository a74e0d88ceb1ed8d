#include "lib/base/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace train {

void check_failed(const char* file, int line, const char* condition, std::string_view why) {
  fmt::print(
      stderr,
      "internal error at {}:{}: {} (failed: {}); this is a bug in trainrun, please report it\n",
      file, line, why, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace train
