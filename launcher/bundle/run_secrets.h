// Finds out what is secret in a run, so that redacted() (lib/base/secrets.h) hides it. Calls block.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/storage/run_folder.h"

namespace train {

struct RunSecrets {
  // spec.yaml and spec.resolved.yaml as they may be shown; "": it cannot be read as a spec.
  std::string spec, resolved_spec;
  std::vector<std::string> notes;  // what may be secret and is not known here
  std::vector<int> workers;        // pids of the run's live processes on this machine
};

/// Learn the secrets of a run: those that its spec spells out or refers to, the run's key, the
/// cluster's token, and those in the environment of the run's live processes.
RunSecrets learn_run_secrets(const RunFolder& folder);

}  // namespace train
