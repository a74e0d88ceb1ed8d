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
  std::optional<Digest> digest = std::nullopt;  // if its writer has computed it
};

/// A file in the staging folder with one line for each file that was digested while it was written,
/// and so need not be read for that.
inline constexpr const char* kStagedDigestsName = ".trainrun-digests";
std::string staged_digest_line(const StagedFile& file);

/// Return all files below `folder`, sorted by path. Leaves out files whose name begins with '.'.
/// InvalidArgument for a link, a device, or a name that check_file_path refuses.
Result<std::vector<StagedFile>> staged_files(FileSystem& fs, const std::string& folder);

}  // namespace train
