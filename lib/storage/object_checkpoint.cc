#include "lib/storage/object_checkpoint.h"

#include "lib/storage/object_checkpoint_store.h"

namespace train {

Result<ObjectCheckpoint> open_object_checkpoint(const std::string& url,
                                                const ObjectStoreOptions& options) {
  std::string folder = url;
  while (folder.ends_with('/')) folder.pop_back();
  const std::string parent = parent_path(folder);
  const bool in_run = parse_checkpoint_name(folder.substr(folder.rfind('/') + 1)).has_value() &&
                      parent.ends_with(std::string("/") + std::string(kObjectCheckpoints));
  const std::string root = in_run ? parent_path(parent) : parent;
  TRY(auto store, open_object_store(root, options));
  return ObjectCheckpoint{std::make_unique<ObjectFiles>(std::move(store), root), folder};
}

}  // namespace train
