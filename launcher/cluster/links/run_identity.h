// A run's identity: what its launcher tells daemons, supervisors and workers about it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/ids.h"

namespace train {

struct RunIdentity {
  std::string run_id;
  std::string name;
  Generation generation;  // of this launcher
  std::string location;   // the run's, for users and nodes: a path or a URL
  /// A text that nodes look for there (lib/storage/storage_marker.h).
  std::string storage_marker;
  std::string code = {};   // the folder of its code (code/code_keeper.h); empty: it ships none
  std::uint32_t pace = 0;  // rounds that workers may be ahead of the driver; 0: any number
};

}  // namespace train
