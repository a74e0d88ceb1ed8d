// Numbers of requests to nodes, by which their answers are known.
#pragma once

#include <cstdint>

#include "lib/base/time.h"

namespace train {

/// Return a number from which a launcher counts its requests: answers to an earlier launcher of the
/// same run have lower ones.
inline std::uint64_t first_request_number(const Clock& clock) {
  return static_cast<std::uint64_t>(clock.wall().time_since_epoch().count());
}

}  // namespace train
