// What a torchrun command line stands for: a spec, and how the terminal shows the workers. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/spec/job_spec_parser.h"
#include "launcher/torchrun/arguments.h"
#include "lib/base/result.h"

namespace train {

/// What the meaning of a command line depends on.
struct TorchrunPlace {
  int cpus = 1, gpus = 0;  // of this machine
  std::size_t hosts = 0;   // daemons that the user names
  std::map<std::string, std::string> environment = {};
};

struct TorchrunLaunch {
  std::vector<SpecOverride> overrides = {};
  std::vector<std::string> command = {};  // not to be interpolated
  std::string program = {};               // what the run is called after
  std::string prefix = {};                // of each line
  std::optional<std::string> redirects = {}, tee = {}, local_ranks = {};
  std::optional<std::string> storage = {};  // a path, or a URL
  std::vector<std::string> notes = {};      // for the user
};

/// Return what it stands for. InvalidArgument names the option, and the nearest thing that
/// train-run has.
Result<TorchrunLaunch> torchrun_launch(const TorchrunArguments& arguments,
                                       const TorchrunPlace& place);

}  // namespace train
