// What a worker left in its staging folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/storage/file_system.h"

namespace train {

struct StagedFile {
  std::string path;  // relative
  std::uint64_t bytes = 0;
};

/// All files below `folder`, by path. Those whose name begins with '.' are left out; a link or a
/// device is InvalidArgument, and so is a name that no checkpoint may hold (check_file_path).
Result<std::vector<StagedFile>> staged_files(FileSystem& fs, const std::string& folder);

}  // namespace train
