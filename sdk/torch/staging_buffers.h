// Memory for the copies of state that checkpoints are written from. A copy into pages that were
// used before costs a third of one into fresh ones, so a buffer that is done is kept for the next
// checkpoint.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace train::sdk {

/// uint8 [bytes] on the CPU, of any content. It goes back when its last tensor is gone, on any
/// thread. What is kept is at most what two checkpoints need: the two newest buffers that came
/// back.
torch::Tensor staging_buffer(std::int64_t bytes);

}  // namespace train::sdk
