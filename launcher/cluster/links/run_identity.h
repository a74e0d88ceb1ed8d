// Who a run is: what its launcher says of it to daemons, supervisors and workers.
#pragma once

#include <string>

#include "lib/base/ids.h"

namespace train {

struct RunIdentity {
  std::string run_id;
  std::string name;
  Generation generation;       // of this launcher
  std::string location;        // of the run for users and nodes: a path, or a URL
  std::string storage_marker;  // that nodes look for there (lib/storage/storage_marker.h)
};

}  // namespace train
