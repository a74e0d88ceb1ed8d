// Decides which of a node's free GPUs an attempt gets. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// What a node knows of a GPU.
struct GpuTraits {
  std::string uuid = {};  // empty: not known
  int numa_node = -1;     // −1: not known
};

/// GPU → who uses it, though no run of trainrun does: "pid 4242 (python3) of alice".
using GpusInUse = std::map<std::string, std::string>;

struct GpuOrder {
  std::size_t count = 0;
  std::vector<std::string> choice = {};  // which may be granted (lib/model/gpu_choice.h)
  bool refuse_in_use = false;
};

struct GpuGrant {
  std::vector<std::string> gpus = {};
  std::vector<std::string> notes = {};  // for the user: which of them somebody else uses
};

/// Choose from `free`, the best first; GPUs that nobody else uses come before the others.
/// With `refuse_in_use`, they are not granted. ResourceExhausted says what is lacking: there may be
/// more later. Unavailable says who uses what: without that, there would be enough.
Result<GpuGrant> grant_gpus(std::vector<std::string> free,
                            const std::map<std::string, GpuTraits>& traits, const GpuOrder& order,
                            const GpusInUse& in_use);

}  // namespace train
