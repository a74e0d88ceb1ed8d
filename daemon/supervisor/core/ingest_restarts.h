// Decides when an ingest worker that has ended is started again. Pure.
#pragma once

#include <cstdint>
#include <deque>

#include "lib/base/time.h"

namespace train {

class IngestRestarts {
 public:
  struct Next {
    Duration wait{};
    bool often = false;  // it dies so often that the next one waits longer
    bool operator==(const Next&) const = default;
  };

  /// Return when the next process is started, after one that was started at `began` has ended.
  Next ended(TimePoint began, TimePoint now);
  std::uint32_t deaths() const { return deaths_; }

 private:
  std::uint32_t deaths_ = 0;
  std::deque<TimePoint> newest_;  // of the deaths
  int slow_ = 0;                  // long waits in a row
};

}  // namespace train
