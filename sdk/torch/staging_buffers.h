// Provides memory for the copies of state that checkpoints are written from. A copy into pages that
// were used before costs a third of a copy into fresh ones, so a finished buffer is kept for the
// next checkpoint.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace train::sdk {

/// Return uint8 [bytes] on the CPU, of any content. The buffer goes back when its last tensor is
/// gone, on any thread. At most what two checkpoints need is kept: the two newest buffers that came
/// back.
torch::Tensor staging_buffer(std::int64_t bytes);

}  // namespace train::sdk
