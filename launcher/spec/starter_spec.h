// Writes a job's first YAML, with comments: `train-run init`. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/spec/job_spec_parser.h"

namespace train {

struct StarterSpec {
  std::vector<std::string> command;  // empty: a program that the user fills in
  bool python = false;               // it runs a Python script
  int num_workers = 2;
  bool use_gpu = false;
  std::vector<SpecOverride> values = {};  // further keys, as --set has them: of a torchrun line
  std::string made_from = {};             // the words that it stands for
};

/// Return a spec that the parser accepts. What is commented out is right as well.
std::string starter_spec(const StarterSpec& starter);

}  // namespace train
