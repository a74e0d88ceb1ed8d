#include "lib/profile/sampling/sample_queue.h"

namespace train {
namespace {

std::size_t bytes_of(const SampleBatch& batch) {
  std::size_t bytes = sizeof batch;
  for (const ThreadCapture& thread : batch.process.threads)
    bytes += sizeof thread + thread.stack.size();
  for (const MappedRange& range : batch.process.mappings) bytes += sizeof range + range.path.size();
  return bytes;
}

}  // namespace

bool SampleQueue::push(SampleBatch batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t bytes = bytes_of(batch);
  if (closed_ || bytes_ + bytes > kBytesMax) return false;
  bytes_ += bytes;
  batches_.push_back(std::move(batch));
  changed_.notify_one();
  return true;
}

void SampleQueue::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool SampleQueue::closed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_;
}

std::optional<SampleBatch> SampleQueue::pop(TimePoint deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return closed_ || !batches_.empty(); });
  if (batches_.empty()) return std::nullopt;
  SampleBatch batch = std::move(batches_.front());
  batches_.pop_front();
  bytes_ -= bytes_of(batch);
  return batch;
}

}  // namespace train
