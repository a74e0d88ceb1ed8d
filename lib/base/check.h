// TRAIN_CHECK catches our own bugs only, and is on in release builds too. A program that is wrong
// stops, is started again and re-attaches, rather than go on wrong. The code never checks input,
// network, disk or user processes with it.
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
