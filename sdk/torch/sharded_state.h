// Writes a ShardedState to files and reads it back: rank-0003/sharded.safetensors holds what rank 3
// wrote. state_io.cc calls this.
#pragma once

#include <train/torch.h>

#include <string>

#include "sdk/torch/tensor_file.h"

namespace train::sdk {

/// Copy what this rank writes: its pieces, and the replicated tensors that are assigned to it.
StagedFile stage_sharded(const ShardedState& state, int rank, int world_size);

/// Fill the pieces of `state` from the files named `file_name` in the folders `rank-*` of a
/// checkpoint, no matter how many ranks wrote them. Reads only what it needs, or, when it has to
/// verify the files, each file that contains any of it completely. Throws Failure("not_found",
/// "corrupt"), or, before it changes anything, "invalid_argument" with everything that does not
/// fit.
void load_sharded(const CheckedFiles& checkpoint, const std::string& file_name,
                  const ShardedState& state);

}  // namespace train::sdk
