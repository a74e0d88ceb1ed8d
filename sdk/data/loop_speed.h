// How fast a rank's loop is without the waits for data and for other ranks.
#pragma once

#include <cstdint>

namespace train::sdk {

struct LoopSpeed {
  std::int64_t rows = 0;      // valid ones, of batches that the loop is done with
  std::uint64_t busy_ns = 0;  // that it took for them
  /// Return rows per second; 0: not known.
  double value() const {
    return rows <= 0 || busy_ns == 0
               ? 0
               : static_cast<double>(rows) * 1e9 / static_cast<double>(busy_ns);
  }
};

}  // namespace train::sdk
