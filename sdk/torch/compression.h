// Sends the gradients of a prepared model between the ranks in a smaller type.
#pragma once

#include <train/torch.h>

#include <memory>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace train::sdk {

/// Return the hook that a c10d::Reducer calls for each bucket of gradients; null for None.
std::unique_ptr<c10d::CommHookInterface> compression_hook(
    GradientCompression compression, c10::intrusive_ptr<c10d::ProcessGroup> group);

}  // namespace train::sdk
