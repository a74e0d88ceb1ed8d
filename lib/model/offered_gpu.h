// A GPU that a node offers to a run.
#pragma once

#include <string>

#include "lib/model/fields.h"

namespace train {

struct OfferedGpu {
  std::string name = {};  // as CUDA_VISIBLE_DEVICES names it: an index, or a MIG instance
  std::string uuid = {};  // "GPU-…"; empty: not known
  bool free = true;       // no other run has it
  bool operator==(const OfferedGpu&) const = default;
  TRAIN_FIELDS(name, uuid, free)
};

}  // namespace train
