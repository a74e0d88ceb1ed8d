// Reads the small text files that a spec consists of or names. The only I/O of this folder.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace train::spec {

/// Return the text of a file of at most 1 MiB. NotFound, Permission, Io, or ResourceExhausted.
Result<std::string> read_spec_file(const std::string& path);

}  // namespace train::spec
