// TRAIN_CHECK: for our own bugs only, and on in release builds too. A program that is wrong stops,
// is started again and re-attaches, rather than go on wrong. Input, network, disk and user
// processes are never checked with it.
#pragma once

#include <string_view>

namespace train {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view why);
}

#define TRAIN_CHECK(condition, why)                                                 \
  do {                                                                              \
    if (!(condition)) ::train::check_failed(__FILE__, __LINE__, #condition, (why)); \
  } while (false)
