// Precompiled once for the sources of sdk/torch: LibTorch's headers take 15 s a file otherwise.
#pragma once

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
