// The functions that libtrainrun_storage.so exports.
#pragma once

#include "lib/storage/object_store.h"

namespace train {

// A user's program may meet the module of another version of trainrun: count the name up with each
// change of these functions' types.
inline constexpr const char* kStorageModuleEntry = "trainrun_open_object_store_2";
using OpenStore = void (*)(const std::string& url, const ObjectStoreOptions& options,
                           Result<std::shared_ptr<ObjectStore>>* opened);
inline constexpr const char* kStorageModuleExit = "trainrun_close_object_stores";
using CloseStores = void (*)();

}  // namespace train
