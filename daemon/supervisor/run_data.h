// The folder below traind's --data-dir with what one run keeps on this node (NodeData removes it).
#pragma once

#include <string>

#include "lib/storage/file_system.h"

namespace train {

/// Make the run's folder, unless it is there; check that it is ours alone. Blocks.
Result<Unit> make_run_data(FileSystem& fs, const std::string& folder);

}  // namespace train
