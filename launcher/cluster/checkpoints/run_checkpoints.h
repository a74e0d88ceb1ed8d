// Opens the checkpoints of a run for callers that only read them.
#pragma once

#include <memory>
#include <string>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/object_files.h"

namespace train {

struct RunCheckpoints {
  std::unique_ptr<ObjectFiles> objects;  // of a run in an object store
  FileSystem* files = nullptr;           // shows the files of `store`
  std::unique_ptr<CheckpointStore> store;
};

/// Open the checkpoints of the run at `location`, a path or a URL. `files` is used for a path, and
/// must outlive the result.
Result<RunCheckpoints> open_checkpoints(const std::string& location, FileSystem& files);

}  // namespace train
