#include "cmd/trainrun-pmix/pmix_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace train {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<PmixLibrary> PmixLibrary::open(const std::vector<std::string>& names) {
  void* library = nullptr;
  std::string tried;
  for (const std::string& name : names) {
    library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);  // its plugins use its symbols
    if (library != nullptr) break;
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", ::dlerror());
  }
  if (library == nullptr) return Error{Errc::NotFound, tried};
  PmixLibrary found;
  if (find(library, "PMIx_server_init", found.server_init) &&
      find(library, "PMIx_server_register_nspace", found.server_register_nspace) &&
      find(library, "PMIx_server_register_client", found.server_register_client) &&
      find(library, "PMIx_server_deregister_nspace", found.server_deregister_nspace) &&
      find(library, "PMIx_server_setup_fork", found.server_setup_fork) &&
      find(library, "PMIx_generate_regex", found.generate_regex) &&
      find(library, "PMIx_generate_ppn", found.generate_ppn) &&
      find(library, "PMIx_Error_string", found.error_string))
    return found;
  return Error{Errc::Unavailable, fmt::format("not a libpmix that serves: {}", ::dlerror())};
}

Result<Unit> PmixLibrary::check(pmix_status_t status, const char* call) const {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return Unit{};
  return Error{Errc::Unavailable, fmt::format("{}: {}", call, error_string(status))};
}

}  // namespace train
