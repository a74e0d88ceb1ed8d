#include "launcher/cluster/checkpoints/run_checkpoints.h"

#include "launcher/cluster/checkpoints/store_trouble.h"
#include "lib/storage/object_checkpoint_store.h"
#include "lib/storage/run_folder.h"

namespace train {

Result<RunCheckpoints> open_checkpoints(const std::string& location, FileSystem& files) {
  RunCheckpoints checkpoints;
  if (!is_object_url(location)) {
    checkpoints.files = &files;
    checkpoints.store = std::make_unique<CheckpointStore>(files, RunFolder(location).checkpoints());
    return checkpoints;
  }
  TRY(auto store, open_object_store(location, {.on_retry = say_store_trouble()}));
  checkpoints.objects = std::make_unique<ObjectFiles>(std::move(store), location);
  checkpoints.files = checkpoints.objects.get();
  checkpoints.store = std::make_unique<ObjectCheckpointStore>(*checkpoints.objects, location);
  return checkpoints;
}

}  // namespace train
