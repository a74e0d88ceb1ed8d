// State of LibTorch's optimizers to a safetensors file and back. Tensors are named
// "<parameter>.<name>", parameters numbered over all groups; the groups' options and the
// parameters' numbers are JSON in the header's metadata. Such a file holds nothing that could run.
// Called by state_io.cc.
#pragma once

#include <train/torch.h>

#include "sdk/torch/tensor_file.h"

namespace train::sdk {

/// What a saved optimizer and the one that loads it have in common: the type, and the parameters'
/// shapes by group.
Dict describe(const torch::optim::Optimizer& optimizer);

/// Throws Failure("invalid_argument") for an optimizer that is, or derives from, none of
/// LibTorch's.
StagedFile stage_optimizer(const torch::optim::Optimizer& optimizer);

/// Into an optimizer as describe() has it for the saved one. Throws Failure("corrupt") that names
/// file and entry; the optimizer is then as it was.
void load_optimizer(FileScan scan, torch::optim::Optimizer& optimizer);

}  // namespace train::sdk
