// Writes the state of LibTorch's optimizers to a safetensors file and reads it back. Tensors are
// named "<parameter>.<name>", where parameters are numbered over all groups. The groups' options
// and the parameters' numbers are JSON in the header's metadata. Such a file contains no code.
// state_io.cc calls this.
#pragma once

#include <train/torch.h>

#include "sdk/torch/sharded_state.h"
#include "sdk/torch/tensor_file.h"

namespace train::sdk {

/// Return what must be the same for a saved optimizer and the one that loads it: the type, and the
/// parameters' shapes by group.
Dict describe(const torch::optim::Optimizer& optimizer);

/// Copy the optimizer's state. Throws Failure("invalid_argument") for an optimizer that neither is
/// nor derives from one of LibTorch's.
StagedFile stage_optimizer(const torch::optim::Optimizer& optimizer);
/// The same for an optimizer of a sharded model: copy this rank's rows of the state.
StagedFile stage_sharded_optimizer(const torch::optim::Optimizer& optimizer, int rank,
                                   int world_size);

/// Load what either has written to files of this name, into an optimizer of either kind for which
/// describe() returns the same as for the saved one. Throws Failure("corrupt"), which names the
/// file and the entry; the optimizer is then unchanged.
void load_optimizer(const CheckedFiles& checkpoint, const std::string& name, const SavedBy& by,
                    torch::optim::Optimizer& optimizer);

}  // namespace train::sdk
