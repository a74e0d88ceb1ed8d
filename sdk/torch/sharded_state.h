// ShardedState to files and back: rank-0003/sharded.safetensors holds what rank 3 wrote. Called by
// state_io.cc.
#pragma once

#include <train/torch.h>

#include <string>

#include "sdk/torch/tensor_file.h"

namespace train::sdk {

/// What this rank writes: its pieces, and the tensors of all ranks that are dealt to it.
StagedFile stage_sharded(const ShardedState& state, int rank, int world_size);

/// Fill the pieces of `state` from the files of this name in the folders `rank-*` of a checkpoint,
/// however many ranks wrote them. Reads only what it needs, or, to verify them, all of the files in
/// which that lies. Throws Failure("not_found", "corrupt"), or, before anything is changed,
/// "invalid_argument" with all that does not fit.
void load_sharded(const CheckedFiles& checkpoint, const std::string& file_name,
                  const ShardedState& state);

}  // namespace train::sdk
