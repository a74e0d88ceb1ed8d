#include "lib/data/read/expected_fetches.h"

#include <algorithm>

namespace train::data {

std::deque<ExpectedFetches::Expected>::iterator ExpectedFetches::find(const DataFile& file,
                                                                      std::int64_t offset,
                                                                      std::int64_t bytes) {
  return std::find_if(expected_.begin(), expected_.end(), [&](const Expected& one) {
    return one.offset == offset && one.bytes == bytes && one.path == file.path;
  });
}

void ExpectedFetches::add(const DataFile& file, std::int64_t offset, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes <= 0 || bytes > kFetchBytesMax || bytes > kExpectedBytesMax - bytes_) return;
  if (find(file, offset, bytes) != expected_.end()) return;
  expected_.push_back({file.path, offset, bytes, begin_fetch(file, offset, bytes)});
  bytes_ += bytes;
}

FetchPtr ExpectedFetches::take(const DataFile& file, std::int64_t offset, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = find(file, offset, bytes);
  if (found == expected_.end()) return nullptr;
  FetchPtr fetch = std::move(found->fetch);
  bytes_ -= bytes;
  expected_.erase(found);
  return fetch;
}

void ExpectedFetches::clear() {
  const std::lock_guard lock(mutex_);
  expected_.clear();
  bytes_ = 0;
}

}  // namespace train::data
