// Finds shared libraries as the dynamic linker does (ld.so(8)), without running anything.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/supervisor/code/dynamic_file.h"

namespace train {

/// Soname → paths, as ldconfig(8) has found them.
using LibraryCache = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Read the text of /etc/ld.so.cache. What is no cache gives an empty one.
LibraryCache parse_library_cache(std::string_view text);

/// Where the libraries of one program are looked for.
struct LibraryPaths {
  std::vector<std::string> library_path = {};  // LD_LIBRARY_PATH
  LibraryCache cache = {};
  std::vector<std::string> standard = {};  // folders
  std::string working_dir = {};            // where relative and empty folders lie
};
/// Return those of this machine.
LibraryPaths library_paths(const std::string& library_path, const std::string& working_dir);

/// A file that a program loads.
struct LoadedFile {
  std::string name = {};  // as it is asked for
  std::string path = {};
  DynamicFile elf = {};
};
struct LoadedFiles {
  std::vector<LoadedFile> files = {};  // the program first
  struct Missing {
    std::string name, needed_by;
  };
  std::vector<Missing> missing = {};
};

/// Return what a program loads when it starts, `max` files at most. A file that is no dynamic
/// program loads nothing.
LoadedFiles loaded_files(const std::string& name, const std::string& path,
                         const LibraryPaths& paths, std::size_t max);

}  // namespace train
