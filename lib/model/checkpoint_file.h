#pragma once

#include <cstdint>
#include <string>

#include "lib/model/digest.h"
#include "lib/model/fields.h"

namespace train {

struct CheckpointFile {
  std::string path;  // relative to the folder of its shard, or of its checkpoint
  std::uint64_t bytes = 0;
  Digest digest = {};
  bool operator==(const CheckpointFile&) const = default;
  TRAIN_FIELDS(path, bytes, digest)
};

}  // namespace train
