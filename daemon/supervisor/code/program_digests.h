// Finds out what a node would run for a job, so that nodes can be compared: the program, the files
// that its command names, and the libraries that it loads. Blocks, perhaps for long: the files may
// be on a network file system. Runs nothing.
#pragma once

#include <string>

#include "lib/model/node_digests.h"

namespace train {

/// Return the digests. A file that the linker has marked with a build ID is taken for that and its
/// size, others for their content. `sys` is "/sys" but in tests.
NodeDigests program_digests(const DigestOrder& order, const std::string& sys = "/sys");

}  // namespace train
