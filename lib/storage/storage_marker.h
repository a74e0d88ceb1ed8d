// This file checks that a node sees the same storage as its launcher. The launcher leaves a small
// file with a unique text in the run's folder, and the node looks for it before workers are
// started. Without this check, a node whose mount is missing would write its shards into a local
// folder of the same name, and the first commit would be the first to notice.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/ids.h"
#include "lib/storage/file_system.h"

namespace train {

/// With less free space no run begins: its journal and logs would not fit either.
inline constexpr std::uint64_t kFreeBytesMin = 1 << 20;

/// Leave the mark `.probe-<generation>`, and remove those that earlier launchers left. Not synced:
/// it only has to be seen.
Result<Unit> leave_storage_marker(FileSystem& fs, const std::string& run_dir, Generation generation,
                                  const std::string& text);
/// Remove all marks; best effort.
void remove_storage_markers(FileSystem& fs, const std::string& run_dir);

struct StorageCheck {
  std::string run_dir;
  Generation generation;
  std::string mark;    // its text
  std::string prober;  // who looks: a file name of its own
};
/// Check that this is the launcher's storage, can be written, and has room. InvalidArgument: it is
/// not the launcher's, or may not be written, and that will not change by itself; however, a
/// network file system may show the mark a little later. Permission: it is closed to this user.
Result<Unit> check_storage(FileSystem& fs, const StorageCheck& check);

}  // namespace train
