// TRAIN_CHECK catches our own bugs only, in release builds too. A program that has gone wrong
// stops, is restarted and re-attaches, instead of continuing in a wrong state. Never use it to
// check input, the network, the disk or user processes.
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
