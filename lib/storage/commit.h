// The steps of a commit, in the order in which CheckpointStore::commit takes them (FORMAT.md
// section 2). They are separate functions so that a test can take them in a wrong order, to show
// that the crash checker notices.
#pragma once

#include <string>
#include <vector>

#include "lib/storage/checkpoint_writer.h"
#include "lib/storage/manifest.h"

namespace train {

/// Step 2: move the files of the shards to their final places in `pending`, remove the shards, and
/// sync the folders inside `pending`. Step 3 syncs `pending` itself. If this step was interrupted,
/// a later launcher can repeat it.
Result<Unit> assemble(FileSystem& fs, const std::string& pending,
                      const std::vector<CheckpointShard>& shards,
                      const std::vector<ManifestFile>& files);
/// Step 3: write and sync the manifest, and sync the folder.
Result<Unit> write_manifest(FileSystem& fs, const std::string& pending, const Manifest& manifest);
/// Step 4: give the folder its final name, never over another folder, and sync the folder above.
Result<Unit> publish(FileSystem& fs, const std::string& pending, const std::string& committed);

}  // namespace train
