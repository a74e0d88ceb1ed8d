// Finds which parameters of a model belong to which unit, and compares the models of the ranks.
// fully_shard.cc calls this.
#pragma once

#include <train/torch_shard.h>

#include <cstddef>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace train::sdk {

struct FoundParameter {
  std::string name;
  at::Tensor tensor;
  std::size_t unit = 0;
};

/// What a model is made of.
struct FoundModel {
  std::vector<FoundParameter> parameters;     // each once, under its first name
  std::vector<detail::ShardUnitBase*> units;  // unit i + 1
  std::set<std::size_t> outer;                // units that hold others
};

/// Find the units. A parameter belongs to the innermost one around it, to unit 0 if there is none,
/// or if two units use it.
FoundModel find_units(torch::nn::Module& module);

/// Throw Failure("invalid_argument") on all ranks if these differ in parameters, units or options.
/// Collective.
void compare_ranks(const FoundModel& model, const FullyShardOptions& options,
                   c10d::ProcessGroup& group);

}  // namespace train::sdk
