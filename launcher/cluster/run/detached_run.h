// A run whose controller runs under a traind (`train-run --detach`): what this controller does
// differently from one on a terminal, and how the train-run that detaches asks for it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/cluster/links/private_daemon.h"
#include "launcher/cluster/run/run_job.h"
#include "lib/base/time.h"
#include "lib/storage/run_folder.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Return the private traind of a run, started if necessary. None for a run that has its own nodes,
/// unless it `must` have one to run its controller. `workers_of`: the folder of a run whose workers
/// it takes, and so whose private traind; empty: none.
Result<std::optional<PrivateDaemon>> private_daemon_of(const RunOptions& options, bool must = false,
                                                       const std::string& workers_of = "");
/// Return the runtime folder of this user's traind on this machine.
std::string user_runtime_dir();
/// Record the daemon for a later launcher of the run.
void remember_daemon(const PrivateDaemon& daemon, const RunFolder& folder);

/// Once the run is ours, continue in its launcher.log, and leave a marker that tells `train-run
/// attach` that another controller follows if this one dies.
Result<Unit> begin_detached(const RunFolder& folder);
void end_detached(const RunFolder& folder);
bool is_detached(const RunFolder& folder);
/// Return whether another node stands ready to take over the controller.
bool may_fail_over(const RunFolder& folder);
/// Return why an unfinished run has no launcher, and the command that resumes it.
std::string left_text(const RunFolder& folder);

struct DetachOutcome {
  /// Whether the controller owned the run. If not, it ended before that, with:
  bool up = false;
  int exit_code = 0;  // 128 + signal
  std::string said;
};
struct DetachRequest {
  std::string runtime_dir;  // of the traind
  DetachController message;
  std::string build;
  Duration timeout{};  // for the traind to answer at all
  std::function<bool(pid_t controller)> owns_run;
  /// Asked of a controller that ended without a word: whether it has come to the run's end.
  std::function<bool()> has_ended;
};
/// Ask a traind to run a controller, and wait until the controller owns the run or has ended.
/// Unavailable if no traind of this user is running.
Result<DetachOutcome> detach_controller(const DetachRequest& request);

}  // namespace train
