// How the train-run of a trial is called: with the sweep's spec, over which the trial's values lie.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/cluster/sweep/sweep_driver.h"
#include "launcher/cluster/sweep/sweep_folder.h"

namespace train {

/// Return the words for ChildRun::start(). `resume`: the run of the trial's newest part has
/// begun. `daemon`: where the traind is that all trials share; "": the spec names nodes.
std::vector<std::string> trial_command(const SweepOptions& options, const SweepFolder& folder,
                                       const TrialState& state, int trial, bool resume,
                                       const std::string& daemon);

}  // namespace train
