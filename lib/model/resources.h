#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lib/model/fields.h"

namespace train {

struct Resources {  // what a node has, or what a worker claims
  double cpu = 0;   // cores
  double gpu = 0;
  std::uint64_t memory_bytes = 0;
  std::map<std::string, double> custom = {};
  bool operator==(const Resources&) const = default;
  TRAIN_FIELDS(cpu, gpu, memory_bytes, custom)
};

}  // namespace train
