// This file checks that a node sees the same storage as its launcher. The launcher leaves a small
// file with a unique text in the run's folder, and the node looks for it before it starts workers.
// Without this check, a node whose mount is missing would write its shards into a local folder of
// the same name, and nobody would notice before the first commit.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/ids.h"
#include "lib/storage/file_system.h"

namespace train {

/// With less free space, no run starts: its journal and logs would not fit either.
inline constexpr std::uint64_t kFreeBytesMin = 1 << 20;

/// Leave the mark `.probe-<generation>`, and remove those of earlier launchers. Not synced, since
/// it only has to be visible.
Result<Unit> leave_storage_marker(FileSystem& fs, const std::string& run_dir, Generation generation,
                                  const std::string& text);
/// Remove all marks; best effort.
void remove_storage_markers(FileSystem& fs, const std::string& run_dir);

/// Return whether the mark of that launcher is still there: not if another launcher has come, or
/// the run has ended.
Result<bool> has_storage_marker(FileSystem& fs, const std::string& run_dir, Generation generation,
                                const std::string& text);

struct StorageCheck {
  std::string run_dir;
  Generation generation;
  std::string mark;    // its text
  std::string prober;  // part of the name of the file that this node writes; unique
};
/// Check that this is the launcher's storage, is writable, and has room. InvalidArgument: it is not
/// the launcher's, or not writable. That is permanent, except that a network file system may show
/// the mark a little later. Permission: this user may not read it.
Result<Unit> check_storage(FileSystem& fs, const StorageCheck& check);

}  // namespace train
