#include "sdk/torch/staging_buffers.h"

#include <sys/mman.h>

#include <cerrno>
#include <deque>
#include <mutex>
#include <optional>

#include "sdk/torch/cuda_loader.h"
#include "sdk/torch/failure.h"

namespace train::sdk {
namespace {

constexpr std::size_t kKept = 4;
constexpr std::int64_t kLargeBytes = 1 << 20;

struct Buffer {
  void* address = nullptr;
  std::size_t bytes = 0;
  bool pinned = false;
};

Buffer pinned(Buffer buffer) {
  const CudaModule* cuda = cuda_module();
  if (!buffer.pinned && cuda != nullptr) buffer.pinned = cuda->pin(buffer.address, buffer.bytes);
  return buffer;
}

void free(const Buffer& buffer) {
  if (buffer.pinned) cuda_module()->unpin(buffer.address);
  ::munmap(buffer.address, buffer.bytes);
}

class Pool {
 public:
  Buffer take(std::size_t bytes) {
    if (const auto found = best_kept(bytes)) return *found;
    void* address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) raise(system_error(errno, "memory for a checkpoint's copy"));
    ::madvise(address, bytes, MADV_HUGEPAGE);  // fewer page faults, if the kernel has huge pages
    return {address, bytes, false};
  }

  void give_back(const Buffer& buffer) {
    Buffer oldest;
    {
      const std::lock_guard lock(mutex_);
      kept_.push_back(buffer);
      if (kept_.size() <= kKept) return;
      oldest = kept_.front();
      kept_.pop_front();
    }
    free(oldest);
  }

 private:
  /// Take the smallest buffer that is large enough, and not far too large.
  std::optional<Buffer> best_kept(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->bytes < bytes || it->bytes / 2 > bytes) continue;
      if (best == kept_.end() || it->bytes < best->bytes) best = it;
    }
    if (best == kept_.end()) return std::nullopt;
    const Buffer found = *best;
    kept_.erase(best);
    return found;
  }

  std::mutex mutex_;
  std::deque<Buffer> kept_;  // oldest first
};

// Never destroyed: a buffer may be given back while the process exits.
Pool& pool() {
  static auto* const made = new Pool;
  return *made;
}

}  // namespace

torch::Tensor staging_buffer(std::int64_t bytes, bool from_gpu) {
  if (bytes < kLargeBytes) return torch::empty({bytes}, torch::kUInt8);
  const Buffer taken = pool().take(static_cast<std::size_t>(bytes));
  const Buffer buffer = from_gpu ? pinned(taken) : taken;
  return torch::from_blob(
      buffer.address, {bytes}, [buffer](void*) { pool().give_back(buffer); }, torch::kUInt8);
}

}  // namespace train::sdk
