#include "launcher/cluster/checkpoints/run_checkpoints.h"

#include "launcher/cluster/checkpoints/store_trouble.h"
#include "lib/storage/object_checkpoint_store.h"
#include "lib/storage/run_folder.h"

namespace train {

Result<RunCheckpoints> open_checkpoints(const std::string& place, FileSystem& files) {
  RunCheckpoints checkpoints;
  if (!is_object_url(place)) {
    checkpoints.files = &files;
    checkpoints.store = std::make_unique<CheckpointStore>(files, RunFolder(place).checkpoints());
    return checkpoints;
  }
  TRY(auto store, open_object_store(place, {.on_retry = say_store_trouble()}));
  checkpoints.objects = std::make_unique<ObjectFiles>(std::move(store), place);
  checkpoints.files = checkpoints.objects.get();
  checkpoints.store = std::make_unique<ObjectCheckpointStore>(*checkpoints.objects, place);
  return checkpoints;
}

}  // namespace train
