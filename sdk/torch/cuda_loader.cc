#include "sdk/torch/cuda_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "sdk/torch/failure.h"

namespace train::sdk {
namespace {

/// The module, or why there is none although a GPU is visible.
struct Loaded {
  const CudaModule* module = nullptr;
  std::optional<Error> error = {};
};

#ifdef TRAIN_CUDA_MODULE
Loaded load() {
  // The loader finds it through the program's RUNPATH, or in its other search paths.
  void* handle = ::dlopen("libtrainrun_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return {nullptr,
            Error{Errc::Unavailable,
                  std::string("a GPU is visible, but the GPU part cannot be loaded: ") +
                      (why ? why : "?"),
                  "install the CUDA libraries that LibTorch needs, or set CUDA_VISIBLE_DEVICES= to "
                  "train on the CPU"}};
  }
  using Entry = const CudaModule* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(handle, kCudaModuleEntry));
  if (entry == nullptr) {
    return {nullptr,
            Error{Errc::Internal, std::string("libtrainrun_cuda.so lacks ") + kCudaModuleEntry}};
  }
  return {entry()};
}
#else
Loaded load() {
  return {nullptr,
          Error{Errc::Unavailable,
                "a GPU is visible, but trainrun was built without its CUDA part (TRAIN_CUDA)",
                "build it where the CUDA toolkit is, or set CUDA_VISIBLE_DEVICES= to train on the "
                "CPU"}};
}
#endif

const Loaded& loaded() {
  static const Loaded once =
      gpu_visible(std::getenv("CUDA_VISIBLE_DEVICES"), ::access("/dev/nvidiactl", R_OK | W_OK) == 0)
          ? load()
          : Loaded{};
  return once;
}

// Before main, and before the program's own static objects. CUDA itself begins with the first
// device_count() or operation, so that a program may still fork.
[[gnu::constructor(101)]] void load_early() { loaded(); }

}  // namespace

bool gpu_visible(const char* cuda_visible_devices, bool driver_present) {
  if (!driver_present) return false;
  if (cuda_visible_devices == nullptr) return true;
  const std::string_view listed = cuda_visible_devices;
  return !(listed.empty() || listed == "-1" || listed == "NoDevFiles" || listed == "void" ||
           listed == "none");
}

const CudaModule* cuda_module() {
  if (loaded().error) raise(*loaded().error);
  static const bool any = loaded().module != nullptr && loaded().module->device_count() > 0;
  return any ? loaded().module : nullptr;
}

}  // namespace train::sdk
