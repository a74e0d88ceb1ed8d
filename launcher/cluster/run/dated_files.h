// Files of an attempt that are made again and again, of which the newest are kept: their names
// begin with when they were made.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "lib/storage/file_system.h"

namespace train {

inline constexpr std::size_t kDatedFilesKept = 64;  // of each ending

struct DatedFile {
  std::string ending;  // ".txt"
  std::string text;
};

/// Return the path without ending of files that are made now: "FOLDER/20261126-101500.123-WHAT",
/// which sorts by time.
std::string dated_stem(const std::string& folder, std::chrono::system_clock::time_point wall,
                       std::string_view what);

/// Write files that differ in their endings, in this order, into a folder that need not exist.
/// Before, remove the oldest of each ending, so that kDatedFilesKept are there. Only files whose
/// names begin with a time are ours to remove.
Result<Unit> write_dated_files(FileSystem& files, const std::string& stem,
                               const std::vector<DatedFile>& all);

}  // namespace train
