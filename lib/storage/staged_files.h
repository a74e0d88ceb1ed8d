// What a worker left in its staging folder.
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

/// In the staging folder: a line a file of what was digested as it was written, and need not be
/// read for that again.
inline constexpr const char* kStagedDigestsName = ".trainrun-digests";
std::string staged_digest_line(const StagedFile& file);

/// All files below `folder`, by path. Those whose name begins with '.' are left out; a link or a
/// device is InvalidArgument, and so is a name that no checkpoint may hold (check_file_path).
Result<std::vector<StagedFile>> staged_files(FileSystem& fs, const std::string& folder);

}  // namespace train
