// The steps of a commit, in the order that CheckpointStore::commit takes them (FORMAT.md section
// 2). They are apart so that a test can take them in a wrong order, and show that the crash checker
// notices.
#pragma once

#include <string>
#include <vector>

#include "lib/storage/checkpoint_writer.h"
#include "lib/storage/manifest.h"

namespace train {

/// Step 2: move the files of the shards to their final places in `pending`, remove the shards, and
/// sync the folders in it; itself is synced by step 3. May be repeated by a later launcher when it
/// was cut short.
Result<Unit> assemble(FileSystem& fs, const std::string& pending,
                      const std::vector<CheckpointShard>& shards,
                      const std::vector<ManifestFile>& files);
/// Step 3: write and sync the manifest, and sync the folder.
Result<Unit> write_manifest(FileSystem& fs, const std::string& pending, const Manifest& manifest);
/// Step 4: give the folder its name, never over another, and sync the folder above.
Result<Unit> publish(FileSystem& fs, const std::string& pending, const std::string& committed);

}  // namespace train
