// Which of its node's CPUs a worker may use, and where its memory comes from first.
#pragma once

#include <cstdint>
#include <string>

#include "lib/model/fields.h"

namespace train {

struct WorkerBinding {
  std::string cpus = {};          // as the kernel lists them: "0-3,8"; empty: all
  std::int32_t memory_node = -1;  // the NUMA node; −1: none is preferred
  bool exclusive = false;         // no other worker of the node has them
  bool operator==(const WorkerBinding&) const = default;
  TRAIN_FIELDS(cpus, memory_node, exclusive)
};

}  // namespace train
