// This file opens one committed checkpoint in an object store by its URL: one of a run, or a copy
// that somebody put there.
#pragma once

#include <memory>
#include <string>

#include "lib/storage/object_files.h"

namespace train {

struct ObjectCheckpoint {
  std::unique_ptr<ObjectFiles> files;
  std::string folder;  // its path in `files`, for code that reads a checkpoint's folder
};

/// Open "s3://bucket/runs/job/checkpoints/checkpoint_000012". Reads nothing yet.
Result<ObjectCheckpoint> open_object_checkpoint(const std::string& url,
                                                const ObjectStoreOptions& options);

}  // namespace train
