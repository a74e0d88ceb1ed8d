// Batches of samples on their way from the thread that samples to the one that has them unwound. If
// that falls behind, samples are lost instead of memory. Any thread may call.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "lib/base/time.h"
#include "lib/profile/profile_codec.h"

namespace train {

class SampleQueue {
 public:
  static constexpr std::size_t kBytesMax = 64u << 20;

  /// Return false, and drop the batch, if the queue is full.
  bool push(SampleBatch batch);
  /// Say that nothing more comes.
  void close();
  /// Wait for a batch. Nothing: none comes any more, or the deadline has passed.
  std::optional<SampleBatch> pop(TimePoint deadline);
  bool closed() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SampleBatch> batches_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace train
