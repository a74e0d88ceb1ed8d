// Fetches that began because somebody will ask for them soon. Any thread may call.
#pragma once

#include <deque>
#include <mutex>

#include "lib/data/read/fetcher.h"

namespace train::data {

/// The most bytes that are expected at a time, for each bucket.
inline constexpr std::int64_t kExpectedBytesMax = 32 << 20;

class ExpectedFetches {
 public:
  /// Begin to fetch a range, unless it is expected already, or too much is.
  void add(const DataFile& file, std::int64_t offset, std::int64_t bytes);
  /// Return the fetch of exactly this range, which is then expected no longer; null if it is not.
  FetchPtr take(const DataFile& file, std::int64_t offset, std::int64_t bytes);
  /// Give up everything.
  void clear();

 private:
  struct Expected {
    std::string path;
    std::int64_t offset = 0, bytes = 0;
    FetchPtr fetch;
  };
  std::deque<Expected>::iterator find(const DataFile& file, std::int64_t offset,
                                      std::int64_t bytes);

  std::mutex mutex_;
  std::deque<Expected> expected_;
  std::int64_t bytes_ = 0;
};

}  // namespace train::data
