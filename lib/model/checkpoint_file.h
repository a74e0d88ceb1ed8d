#pragma once

#include <cstdint>
#include <string>

#include "lib/model/fields.h"

namespace train {

struct WrittenFile {
  std::string path;  // relative to the checkpoint's folder
  std::uint64_t size = 0;
  std::string xxh3;  // 32 hex digits
  bool operator==(const WrittenFile&) const = default;
  TRAIN_FIELDS(path, size, xxh3)
};

}  // namespace train
