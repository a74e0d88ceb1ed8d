// The functions that libtrainrun_storage.so exports.
#pragma once

#include "lib/storage/object_store.h"

namespace train {

inline constexpr const char* kStorageModuleEntry = "trainrun_open_object_store";
using OpenStore = void (*)(const std::string& url, const ObjectStoreOptions& options,
                           Result<std::shared_ptr<ObjectStore>>* opened);
inline constexpr const char* kStorageModuleExit = "trainrun_close_object_stores";
using CloseStores = void (*)();

}  // namespace train
