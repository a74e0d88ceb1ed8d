// This file opens one committed checkpoint in an object store by its URL. It may belong to a run,
// or be a copy that somebody put there.
#pragma once

#include <memory>
#include <string>

#include "lib/storage/object_files.h"

namespace train {

struct ObjectCheckpoint {
  std::unique_ptr<ObjectFiles> files;
  std::string folder;  // in `files`: what reads a checkpoint's folder reads it
};

/// Open "s3://bucket/runs/job/checkpoints/checkpoint_000012". Reads nothing yet.
Result<ObjectCheckpoint> open_object_checkpoint(const std::string& url,
                                                const ObjectStoreOptions& options);

}  // namespace train
