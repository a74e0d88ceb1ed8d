// Runs a job from the spec to the exit code: checks what the nodes and the workers need, opens the
// run's record, and lets RunDriver perform the run.
#pragma once

#include <functional>
#include <string>

#include "launcher/cluster/run/run_screen.h"
#include "launcher/core/placement.h"
#include "launcher/report/progress.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/observe/log.h"
#include "lib/wire/daemon_messages.h"

namespace train {

struct RunOptions {
  ParsedSpec parsed;
  std::string spec_text;
  bool unique_name = false;                    // the run's name is a default
  bool force = false;                          // take over the run
  std::vector<std::string> changed_keys = {};  // where the spec differs from the run's previous one
  bool detached = false;                       // a traind runs this controller
  bool restarted = false;                      // in place of one that died
  bool requeue = false;                        // have Slurm start the job again after exit code 75
  std::string private_daemon;  // the runtime folder of that traind, if it is private
  /// What nodes that may take over the controller are to run; no arguments: there are none.
  PrepareFailover failover = {};
  /// The runtime folder of a private traind that somebody else keeps for several runs, and starts
  /// again if it dies; empty: none.
  std::string shared_daemon = {};
  OutputMode output = OutputMode::Plain;
  bool color = false;
  ScreenOptions screen = {};
  int driver_fd = -1;            // the socket to a driver; −1: none
  int pace = 0;                  // rounds that workers may be ahead of the driver; 0: any number
  bool outlives_driver = false;  // else the run stops when the driver is gone
  bool keeps_workers = false;    // after a run that ended well, until the driver is gone
  std::string workers_of = {};   // the folder of an earlier run whose workers it takes; empty: none
  LogFormat log_format = LogFormat::Logfmt;        // of train-run.log
  std::string wait_for_debugger = {};              // the ranks that wait for one; empty: none
  std::map<std::string, std::string> environment;  // the submitter's; workers get it
  std::string build;
  /// Return what this machine offers, for a run that names no nodes.
  std::function<NodeCapacity()> this_node = {};
};

/// Run the job to its end. Print its progress, and return train-run's exit code.
int run_job(const RunOptions& options);

}  // namespace train
