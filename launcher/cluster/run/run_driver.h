// Performs a run: the shell around RunController. Owns the links to the daemons, the run's record,
// the report pipeline, the commits and the screen; decides nothing about training.
#pragma once

#include <string>

#include "launcher/report/progress.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/observe/log.h"

namespace train {

struct RunOptions {
  ParsedSpec parsed;
  std::string spec_text;
  bool unique_name = false;                    // the run's name is a default
  bool force = false;                          // take the run over
  std::vector<std::string> changed_keys = {};  // of the spec, against that of the run before
  bool detached = false;                       // a traind keeps this controller
  std::string private_daemon;                  // its runtime folder, where a private one does
  OutputMode output = OutputMode::Plain;
  bool color = false;
  LogFormat log_format = LogFormat::Logfmt;        // of train-run.log
  std::map<std::string, std::string> environment;  // of the submitter; workers get it
  std::string build;
};

/// Run the job to its end. Prints as it goes, and returns the exit code of train-run.
int run_job(const RunOptions& options);

}  // namespace train
