// Provides memory for the copies of state that checkpoints are written from. A copy into pages that
// were used before costs a third of a copy into fresh ones, so used buffers are kept for the next
// checkpoint. A copy from a GPU into pinned pages takes a quarter of the time.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace train::sdk {

/// Return a uint8 tensor [bytes] on the CPU, with any content; for a copy from a GPU, pinned if the
/// system allows it. Its buffer is given back when its last tensor is gone, on any thread. Of large
/// buffers, the four that were given back last are kept: those of modules, optimizers and sharded
/// state, for the next checkpoint.
torch::Tensor staging_buffer(std::int64_t bytes, bool from_gpu);

}  // namespace train::sdk
