// The clock of the progress page.
#pragma once

#include <time.h>

#include <cstdint>

namespace train {

/// Return the time of CLOCK_MONOTONIC in nanoseconds. It stands still while the machine is
/// suspended, so no worker is silent then.
inline std::uint64_t progress_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace train
