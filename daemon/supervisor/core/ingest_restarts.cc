#include "daemon/supervisor/core/ingest_restarts.h"

#include <algorithm>

namespace train {
namespace {

// One death is an accident, and ranks do without it meanwhile. What dies three times in a minute
// will do so again.
constexpr Duration kFirstWait = milliseconds(100), kSecondWait = seconds(1);
constexpr Duration kLongWait = seconds(10), kLongestWait = seconds(60);
constexpr std::size_t kOften = 3;
constexpr Duration kOftenWithin = seconds(60);
constexpr Duration kLongLife = seconds(60);
constexpr int kDoublingsMax = 3;

}  // namespace

IngestRestarts::Next IngestRestarts::ended(TimePoint began, TimePoint now) {
  ++deaths_;
  newest_.push_back(now);
  if (newest_.size() > kOften) newest_.pop_front();
  if (now - began >= kLongLife) slow_ = 0;
  const bool many = newest_.size() == kOften && now - newest_.front() <= kOftenWithin;
  if (many || slow_ > 0) {
    const Duration wait = kLongWait * (1 << std::min(slow_, kDoublingsMax));
    ++slow_;
    return {std::min(wait, kLongestWait), true};
  }
  const bool again = newest_.size() > 1 && now - newest_[newest_.size() - 2] <= kOftenWithin;
  return {again ? kSecondWait : kFirstWait, false};
}

}  // namespace train
