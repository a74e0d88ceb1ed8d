// A run whose controller a traind keeps (`train-run --detach`): what the controller does otherwise
// than one on a terminal, and how the train-run that detaches asks for it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/cluster/links/private_daemon.h"
#include "launcher/cluster/run/run_driver.h"
#include "lib/base/time.h"
#include "lib/storage/run_folder.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// The private traind of a run, started if need be; none for a run that has nodes of its own,
/// unless it `must` have one to keep its controller.
Result<std::optional<PrivateDaemon>> private_daemon_of(const RunOptions& options,
                                                       bool must = false);
/// Of this user's traind on this machine.
std::string user_runtime_dir();
/// Tell a later launcher of the run.
void remember_daemon(const PrivateDaemon& daemon, const RunFolder& folder);

/// The run is ours: go on in the run's launcher.log, and leave word for `train-run attach` that
/// another controller follows where this one dies.
Result<Unit> begin_detached(const RunFolder& folder);
void end_detached(const RunFolder& folder);
bool is_detached(const RunFolder& folder);
/// Of an unfinished run that no launcher holds: why, and what resumes it.
std::string left_text(const RunFolder& folder);

struct DetachOutcome {
  bool up = false;    // or it ended before it owned the run:
  int exit_code = 0;  // 128 + signal
  std::string said;
};
struct KeepRequest {
  std::string runtime_dir;  // of the traind
  DetachController message;
  std::string build;
  Duration patience{};  // for the traind to answer at all
  std::function<bool(pid_t controller)> owns_run;
};
/// Ask a traind to keep a controller, and wait until it owns the run, or has ended. Unavailable: no
/// traind of this user is there.
Result<DetachOutcome> keep_controller(const KeepRequest& request);

}  // namespace train
