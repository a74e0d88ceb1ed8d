// Precompiled once for the sources of sdk/torch: otherwise, LibTorch's headers take 15 s per file.
#pragma once

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
