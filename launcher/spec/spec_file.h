// Reads the small text files of a spec and those that it names. The only I/O of this folder.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace train::spec {

/// Return the text of a file of at most 1 MiB. Errors: NotFound, Permission, Io, ResourceExhausted;
/// InvalidArgument for a program.
Result<std::string> read_spec_file(const std::string& path);

}  // namespace train::spec
