// Kills what the ranks of an attempt leave behind. If a rank has its own cgroup, that means all of
// the cgroup, at once. Otherwise, finds the rank's processes by a variable of their environment,
// and looks for them again for a while: a process that has just been killed may have left children,
// which come to us only once it is gone. Main thread only.
#pragma once

#include <set>
#include <string>

#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/scope.h"

namespace train {

class LeftoverReaper {
 public:
  explicit LeftoverReaper(Scope& scope) : scope_(scope) {}

  /// Kill what the rank left, and return without waiting for it to be gone.
  void reap(WorkerSlot& slot);
  /// Kill all adopted processes until none is left, for a second at most. This is for the end of
  /// the attempt, when every process that we have adopted is one of its leftovers.
  static asio::awaitable<void> reap_all();

 private:
  asio::awaitable<void> reap_again();

  Scope& scope_;
  std::set<std::string> variables_;  // "RANK=3", of ranks without a cgroup whose processes we kill
  int quiet_rounds_ = 0;             // since one of these processes was found
};

}  // namespace train
