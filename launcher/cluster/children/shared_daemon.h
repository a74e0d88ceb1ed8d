// The private traind that all child runs share (the trials of a sweep, or replica groups), when the
// spec names no nodes: it knows which cores and GPUs are free. It stays between runs, and while
// this process lives.
#pragma once

#include <optional>
#include <string>

#include "launcher/cluster/links/private_daemon.h"
#include "lib/base/result.h"

namespace train {

class SharedDaemon {
 public:
  /// `note`: the file that names it, for a later driver. `ours`: the runtime folder of the private
  /// traind that runs this process (--detach), which stays while we live, too; empty: none does.
  explicit SharedDaemon(std::string note, std::string ours = {})
      : note_(std::move(note)), ours_(std::move(ours)) {}

  /// Start it, or take over that of an earlier driver, under which workers may still run.
  Result<Unit> open();
  /// Start it again if it has ended. Unavailable: it cannot stay.
  Result<Unit> look();
  /// Let it leave with the last run, and wait some seconds for that.
  void leave();

  const std::string& runtime_dir() const { return daemon_->runtime_dir(); }

 private:
  void wait_for_its_end();
  Result<Unit> start();

  const std::string note_, ours_;
  std::optional<PrivateDaemon> daemon_;  // after open()
};

}  // namespace train
