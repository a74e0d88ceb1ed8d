// The fake module itself: libtrainrun_fake_storage.so.
#include <map>
#include <mutex>

#include "lib/storage/storage_module.h"
#include "tests/fakes/storage_module.h"

namespace train::fakes {
namespace {

std::shared_ptr<MemoryObjects> objects_of(const std::string& url) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<MemoryObjects>> all;
  const std::lock_guard lock(mutex);
  auto& objects = all[url];
  if (!objects) objects = std::make_shared<MemoryObjects>();
  return objects;
}

}  // namespace
}  // namespace train::fakes

extern "C" void trainrun_fake_objects(const std::string& url,
                                      std::shared_ptr<train::fakes::MemoryObjects>* objects) {
  *objects = train::fakes::objects_of(url);
}

extern "C" void trainrun_open_object_store_2(
    const std::string& url, const train::ObjectStoreOptions& /*options*/,
    train::Result<std::shared_ptr<train::ObjectStore>>* opened) {
  *opened = std::shared_ptr<train::ObjectStore>(
      std::make_shared<train::fakes::MemoryObjectStore>(train::fakes::objects_of(url)));
}

extern "C" void trainrun_close_object_stores() {}
