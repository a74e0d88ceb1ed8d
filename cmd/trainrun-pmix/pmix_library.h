// The part of libpmix that serves. It is opened when it is needed, so that only nodes whose jobs
// use it have to have one: Debian's libpmix2, or the one that came with an Open MPI.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// Functions as in PMIx's standard, section "Server".
struct PmixLibrary {
  decltype(&::PMIx_server_init) server_init = nullptr;
  decltype(&::PMIx_server_register_nspace) server_register_nspace = nullptr;
  decltype(&::PMIx_server_register_client) server_register_client = nullptr;
  decltype(&::PMIx_server_deregister_nspace) server_deregister_nspace = nullptr;
  decltype(&::PMIx_server_setup_fork) server_setup_fork = nullptr;
  decltype(&::PMIx_generate_regex) generate_regex = nullptr;
  decltype(&::PMIx_generate_ppn) generate_ppn = nullptr;
  decltype(&::PMIx_Info_load) info_load = nullptr;
  decltype(&::PMIx_Error_string) error_string = nullptr;

  /// Open the first of `names` that is PMIx 4 or newer: paths, or names for the dynamic linker. It
  /// stays open.
  static Result<PmixLibrary> open(const std::vector<std::string>& names);

  /// Return an Error that names `call` unless it went well.
  Result<Unit> check(pmix_status_t status, const char* call) const;
};

}  // namespace train
