// Reads what a program or shared library says of itself: which libraries it needs, and where to
// look for them. The file may be anything: everything is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"

namespace train {

struct DynamicFile {
  std::uint16_t machine = 0;
  bool is_dynamic = false;
  std::vector<std::string> needed = {};
  std::string soname = {}, rpath = {}, runpath = {};
  std::string build_id = {};  // hex digits; empty: none
};

/// Open a regular file for reading; −1 for anything else. To open a device may have effects.
FileDescriptor open_regular(const std::string& path);

/// Read a 64-bit little-endian file. Nothing if it is none, or is damaged.
std::optional<DynamicFile> read_dynamic_file(int fd);

}  // namespace train
