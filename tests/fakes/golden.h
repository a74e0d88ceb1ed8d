// Compares output with golden files, byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace train::fakes {

/// Compare `found` with the file. With UPDATE_GOLDEN=1, rewrite the file and fail nevertheless:
/// only a comparison may pass.
inline void expect_golden(const std::string& path, const std::string& found) {
  if (const char* update = std::getenv("UPDATE_GOLDEN"); update != nullptr && *update != '\0') {
    std::ofstream(path, std::ios::binary) << found;
    ADD_FAILURE() << path
                  << " was written anew: look at what changed, and run again without UPDATE_GOLDEN";
    return;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(expected, found) << path << " differs (UPDATE_GOLDEN=1 writes it anew)";
}

}  // namespace train::fakes
