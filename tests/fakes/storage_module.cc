#include "tests/fakes/storage_module.h"

#include <dlfcn.h>

#include <stdexcept>

namespace train::fakes {
namespace {

// Its SONAME is that of the real module: whoever asks the loader for that finds it loaded already.
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
