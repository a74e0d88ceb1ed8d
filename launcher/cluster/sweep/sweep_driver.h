// Performs a sweep: starts a train-run for each trial, follows it as a driver (docs/driver.md), and
// stops what the search has had enough of. SearchController decides; each of its events is in the
// journal, sweep.jsonl, before anything follows from it. When this process dies, its trials stop in
// good order, and a later driver goes on with them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/core/search/search_spec.h"
#include "launcher/report/progress.h"

namespace train {

struct SweepOptions {
  std::string folder;  // has the specs
  std::string name;
  SearchSpec search;
  std::string program;  // this train-run
  /// The spec names no nodes: all trials share one private traind, which knows what is free.
  bool own_daemon = true;
  bool detached = false;            // we run under a traind, and say all in launcher.log
  std::string private_daemon = {};  // the runtime folder of that traind, if it is private
  int fit = 1;                      // so many trials may run at once
  int more = 0;                     // so many trials in addition
  /// Whether to shorten orphan_timeout: workers are not to outlive their train-run by much.
  bool shorten_orphans = true;
  std::string working_dir = {};                         // of the spec: where a searcher starts
  std::map<std::string, std::string> environment = {};  // of a searcher
  std::vector<std::string> variables = {};              // the environment of the trials' train-run
  OutputMode output = OutputMode::Plain;
  std::string build = {};
};

/// Perform the sweep to its end, or until it is told to stop. Return the exit code.
int run_sweep(const SweepOptions& options);

}  // namespace train
