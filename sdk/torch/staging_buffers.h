// Provides memory for the copies of state that checkpoints are written from. A copy into pages that
// were used before costs a third of a copy into fresh ones, so used buffers are kept for the next
// checkpoint.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace train::sdk {

/// Return a uint8 tensor [bytes] on the CPU, with any content. Its buffer is given back when its
/// last tensor is gone, on any thread. The two buffers that were given back last are kept, which is
/// what two checkpoints need.
torch::Tensor staging_buffer(std::int64_t bytes);

}  // namespace train::sdk
