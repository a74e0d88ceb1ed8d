#include "lib/storage/object_store.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "lib/storage/storage_module.h"

namespace train {
namespace {

struct Module {
  OpenStore open = nullptr;
  CloseStores close = nullptr;
};

Result<Module> load_module() {
  // dlopen() searches the RUNPATH of the program, which is relative to the program itself.
  void* handle = ::dlopen("libtrainrun_storage.so", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Error{
        Errc::Unavailable,
        fmt::format("the object store module cannot be loaded: {}", why != nullptr ? why : "?"),
        "install trainrun's libtrainrun_storage.so and the Arrow library it was built with"};
  }
  const Module module{reinterpret_cast<OpenStore>(::dlsym(handle, kStorageModuleEntry)),
                      reinterpret_cast<CloseStores>(::dlsym(handle, kStorageModuleExit))};
  if (module.open == nullptr || module.close == nullptr)
    return Error{Errc::Internal, "libtrainrun_storage.so is of another version of trainrun"};
  return module;
}

/// The receiver of retry reports while the store exists. Abandoned requests continue in the
/// background even when the store is gone.
struct Listener {
  std::mutex mutex;
  std::function<void(const std::string&)> tell;
};

std::optional<Result<Module>> loaded;
std::once_flag load_once;

}  // namespace

std::map<std::string, std::string> store_environment(
    const std::map<std::string, std::string>& environment) {
  constexpr std::array kPrefixes{"AWS_", "GOOGLE_", "HADOOP_"};
  constexpr std::array kNames{
      "STORAGE_EMULATOR_HOST", "GCE_METADATA_HOST", "CLASSPATH", "JAVA_HOME", "KRB5CCNAME",
      "ARROW_LIBHDFS_DIR",     "LIBHDFS_OPTS"};
  std::map<std::string, std::string> chosen;
  for (const auto& [name, value] : environment) {
    const auto begins = [&name = name](const char* prefix) { return name.starts_with(prefix); };
    if (std::any_of(kPrefixes.begin(), kPrefixes.end(), begins) ||
        std::find(kNames.begin(), kNames.end(), name) != kNames.end())
      chosen[name] = value;
  }
  return chosen;
}

Result<std::shared_ptr<ObjectStore>> open_object_store(const std::string& url,
                                                       const ObjectStoreOptions& options) {
  std::call_once(load_once, [] { loaded = load_module(); });
  if (loaded->has_error()) return loaded->error();
  const auto listener = std::make_shared<Listener>();
  listener->tell = options.on_retry;
  ObjectStoreOptions ours = options;
  ours.on_retry = [listener](const std::string& text) {
    const std::lock_guard lock(listener->mutex);
    if (listener->tell) listener->tell(text);
  };
  Result<std::shared_ptr<ObjectStore>> opened = std::shared_ptr<ObjectStore>();
  (*loaded)->open(url, ours, &opened);
  if (opened.has_error()) return opened.error();
  ObjectStore* store = opened->get();
  return std::shared_ptr<ObjectStore>(store, [listener, held = *opened](ObjectStore*) mutable {
    held.reset();
    const std::lock_guard lock(listener->mutex);
    listener->tell = nullptr;
  });
}

void close_object_stores() {
  if (loaded && !loaded->has_error()) (*loaded)->close();
}

}  // namespace train
