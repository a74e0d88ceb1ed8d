// The options of a command line that stand for keys of a spec: `train-run -n 4 -- ./train`. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/spec/job_spec_parser.h"

namespace train {

struct JobFlags {
  std::optional<std::string> num_workers;         // "4", or "2:8"
  std::optional<std::string> gpus, cpus, memory;  // of each worker
  std::optional<std::string> max_failures;
  std::optional<std::string> priority;
  std::optional<std::string> name;
  std::optional<std::string> storage;  // an absolute path, or a URL
};

/// Return what the options stand for. The parser checks the values, and its errors name the option.
/// `over_file`: they lie over a spec's file, which may set a name in two places.
std::vector<SpecOverride> overrides_of(const JobFlags& flags, bool over_file);

/// Return what a user would call the program of a command: "train" for [./train, -v], for
/// [python3, -u, src/train.py] and for [python, -m, train].
std::string program_name(const std::vector<std::string>& command);

}  // namespace train
