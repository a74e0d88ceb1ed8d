#include "tests/fakes/storage_module.h"

#include <dlfcn.h>

#include <stdexcept>

namespace train::fakes {
namespace {

// It has the SONAME of the real module, so the loader takes it for one that is already loaded.
FakeObjects load() {
  void* module = ::dlopen(TRAIN_BINARY_DIR "/tests/libtrainrun_fake_storage.so", RTLD_NOW);
  if (module == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<FakeObjects>(::dlsym(module, kFakeObjects));
}

}  // namespace

std::shared_ptr<MemoryObjects> objects_at(const std::string& url) {
  static const FakeObjects fake_objects = load();
  std::shared_ptr<MemoryObjects> objects;
  fake_objects(url, &objects);
  return objects;
}

}  // namespace train::fakes
