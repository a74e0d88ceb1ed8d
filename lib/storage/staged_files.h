// This file lists what a worker left in its staging folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/storage/digest.h"
#include "lib/storage/file_system.h"

namespace train {

struct StagedFile {
  std::string path;  // relative
  std::uint64_t bytes = 0;
  std::optional<Digest> digest = std::nullopt;  // where its writer has said it
};

/// A file in the staging folder with one line per file that was digested as it was written, and
/// need not be read again for that.
inline constexpr const char* kStagedDigestsName = ".trainrun-digests";
std::string staged_digest_line(const StagedFile& file);

/// Return all files below `folder`, by path. Files whose name begins with '.' are left out. A link
/// or a device is InvalidArgument, and so is a name that no checkpoint may hold (check_file_path).
Result<std::vector<StagedFile>> staged_files(FileSystem& fs, const std::string& folder);

}  // namespace train
