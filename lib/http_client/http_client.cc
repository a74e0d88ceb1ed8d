#include "lib/http_client/http_client.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>
#include <optional>

namespace train {
namespace {

Error cannot_load() {
  const char* why = ::dlerror();
  return Error{Errc::Unavailable,
               fmt::format("the HTTP client cannot be loaded: {}", why != nullptr ? why : "?"),
               "install trainrun's libtrainrun_http.so, and libcurl"};
}

Result<AskHttp> load_module() {
#ifdef TRAIN_LOADS_CURL
  // The module names no libcurl (packaging/cmake/train_static.cmake): it takes the one that is
  // loaded.
  if (::dlopen("libcurl.so.4", RTLD_NOW | RTLD_GLOBAL) == nullptr) return cannot_load();
#endif
  // dlopen() searches the RUNPATH of the program, which is relative to the program itself.
  void* handle = ::dlopen("libtrainrun_http.so", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return cannot_load();
  const auto entry = reinterpret_cast<HttpModuleEntry>(::dlsym(handle, kHttpModuleEntry));
  if (entry == nullptr)
    return Error{Errc::Internal, "libtrainrun_http.so is of another version of trainrun"};
  return AskHttp([entry](const WebRequest& request) {
    WebAnswer answer;
    entry(request, &answer);
    return answer;
  });
}

}  // namespace

Result<AskHttp> load_http_client() {
  static std::once_flag once;
  static std::optional<Result<AskHttp>> loaded;
  std::call_once(once, [] { loaded = load_module(); });
  return *loaded;
}

}  // namespace train
