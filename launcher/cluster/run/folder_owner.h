// Whose a run's folder is: others must not be able to plant checkpoints or requests in it.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace train {

/// Return Permission unless the folder is ours, and others cannot write to it. It may be missing
/// its owner's name: on some file systems all files belong to one user. `whose`, such as "the run
/// mnist", is for messages.
Result<Unit> check_folder_owner(const std::string& path, const std::string& whose);

}  // namespace train
