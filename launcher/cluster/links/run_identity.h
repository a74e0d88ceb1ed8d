// A run's identity: what its launcher tells daemons, supervisors and workers about it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/ids.h"

namespace train {

struct RunIdentity {
  std::string run_id;  // nodes know the run by it; runs of the same workers share it
  std::string name;
  Generation generation;  // of this launcher
  std::string location;   // the run's, for users and nodes: a path or a URL
  /// A text that nodes look for there (lib/storage/storage_marker.h).
  std::string storage_marker;
  std::string code = {};       // the folder of its code (code/code_keeper.h); empty: it ships none
  std::uint32_t pace = 0;      // rounds that workers may be ahead of the driver; 0: any number
  bool keeps_workers = false;  // those whose loops have returned wait for another run
  std::string apart = {};      // what own_id() adds; empty: no other run has that run_id

  /// Return an id that no other run has, for people and their tools.
  std::string own_id() const { return run_id + apart; }
};

}  // namespace train
