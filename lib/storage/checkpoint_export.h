// This file copies committed checkpoints elsewhere: `train-run checkpoint export` and `pull`. A
// copy is a checkpoint like the one in the run: it verifies, and resume_from_checkpoint takes it.
// The run's owner may be at work; a copy changes nothing in the run. All calls block.
#pragma once

#include <string>

#include "lib/storage/checkpoint_store.h"

namespace train {

/// Copy the checkpoint in `source`, as `source_files` shows it, to `target`, which must be missing
/// or an empty folder; missing folders above it are made. Every byte is verified on the way, and
/// synced: after a crash at any point, `target` is there whole, or holds nothing. The bytes are
/// gathered beside it, in ".<name>.tmp"; what a killed export left there is replaced.
/// AlreadyExists: `target` holds something, or another export writes it. NotFound: `source` is no
/// checkpoint, or the run removed it meanwhile. Corrupt says which file.
Result<Manifest> export_checkpoint(FileSystem& source_files, const std::string& source,
                                   FileSystem& fs, const std::string& target,
                                   const OnBytes& on_bytes = {});

enum class Pulled { Copied, WasThere };
/// Do the same as export_checkpoint(), unless `target` is that checkpoint already: the same
/// manifest, and all files with its sizes. AlreadyExists: `target` is another checkpoint, or not
/// whole.
Result<Pulled> pull_checkpoint(FileSystem& source_files, const std::string& source, FileSystem& fs,
                               const std::string& target, const OnBytes& on_bytes = {});

}  // namespace train
