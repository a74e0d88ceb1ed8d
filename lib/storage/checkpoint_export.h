// This file copies committed checkpoints elsewhere: `train-run checkpoint export` and `pull`. A
// copy is a checkpoint like the one in the run: it verifies, and resume_from_checkpoint accepts it.
// The run may be active; copying changes nothing in it. All calls block.
#pragma once

#include <string>

#include "lib/storage/checkpoint_store.h"

namespace train {

/// Copy the checkpoint in the folder `source` of `source_files` to `target`, which must be missing
/// or an empty folder; missing folders above it are created. Verifies and syncs every byte: after a
/// crash at any point, `target` is complete, empty or missing. The bytes are gathered beside it in
/// ".<name>.tmp"; what a killed export left there is removed. AlreadyExists: `target` is not empty,
/// or another export is writing it. NotFound: `source` is no checkpoint, or the run removed it
/// meanwhile. Corrupt names the file.
Result<Manifest> export_checkpoint(FileSystem& source_files, const std::string& source,
                                   FileSystem& fs, const std::string& target,
                                   const OnBytes& on_bytes = {});

enum class Pulled { Copied, WasThere };
/// Do the same as export_checkpoint(), unless `target` already is that checkpoint: it has the same
/// manifest, and all files with the right sizes. AlreadyExists: `target` is another checkpoint, or
/// incomplete.
Result<Pulled> pull_checkpoint(FileSystem& source_files, const std::string& source, FileSystem& fs,
                               const std::string& target, const OnBytes& on_bytes = {});

}  // namespace train
