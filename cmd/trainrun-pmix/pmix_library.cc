#include "cmd/trainrun-pmix/pmix_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace train {
namespace {

constexpr int kVersionMin = 4;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// Return the first number in "OpenPMIx 4.2.2, …", 0 if it has none.
int major_version(const char* text) {
  while (*text != 0 && (*text < '0' || *text > '9')) ++text;
  return std::atoi(text);
}

/// Return what the library has; an Error if that is not what we need.
Result<PmixLibrary> functions_of(void* library, const std::string& name) {
  decltype(&::PMIx_Get_version) version = nullptr;
  PmixLibrary found;
  const bool complete =
      find(library, "PMIx_Get_version", version) &&
      find(library, "PMIx_server_init", found.server_init) &&
      find(library, "PMIx_server_register_nspace", found.server_register_nspace) &&
      find(library, "PMIx_server_register_client", found.server_register_client) &&
      find(library, "PMIx_server_deregister_nspace", found.server_deregister_nspace) &&
      find(library, "PMIx_server_setup_fork", found.server_setup_fork) &&
      find(library, "PMIx_generate_regex", found.generate_regex) &&
      find(library, "PMIx_generate_ppn", found.generate_ppn) &&
      find(library, "PMIx_Error_string", found.error_string);
  if (complete && major_version(version()) < kVersionMin)
    return Error{Errc::NotFound, fmt::format("{}: it is {}; version {} or newer is needed", name,
                                             version(), kVersionMin)};
  if (complete && find(library, "PMIx_Info_load", found.info_load)) return found;
  return Error{Errc::NotFound, fmt::format("{}: it is no libpmix that serves", name)};
}

}  // namespace

Result<PmixLibrary> PmixLibrary::open(const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names) {
    if (!tried.empty()) tried += "; ";
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);  // its plugins use its symbols
    if (library == nullptr) {
      tried += ::dlerror();
      continue;
    }
    auto functions = functions_of(library, name);
    if (functions) return functions;
    tried += functions.error().message;
    ::dlclose(library);
  }
  return Error{Errc::NotFound, tried};
}

Result<Unit> PmixLibrary::check(pmix_status_t status, const char* call) const {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return Unit{};
  return Error{Errc::Unavailable, fmt::format("{}: {}", call, error_string(status))};
}

}  // namespace train
