// Memory for what a peer sends: each thread may take as much as it was allowed since the last time.
// What was taken may be freed by any thread, at any time.
#pragma once

#include <arrow/memory_pool.h>

#include <cstdint>
#include <string>

namespace train::data {

class AllowancePool final : public arrow::MemoryPool {
 public:
  /// Return the one that there is, which is never destroyed.
  static AllowancePool& get() {
    static AllowancePool& pool = *new AllowancePool;
    return pool;
  }
  /// Let this thread take so many bytes, in all.
  static void allow(std::int64_t bytes) { left() = bytes; }

  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(take(size));
    return pool_->Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** ptr) override {
    if (new_size > old_size) ARROW_RETURN_NOT_OK(take(new_size - old_size));
    return pool_->Reallocate(old_size, new_size, alignment, ptr);
  }
  void Free(std::uint8_t* buffer, std::int64_t size, std::int64_t alignment) override {
    pool_->Free(buffer, size, alignment);
  }
  std::int64_t bytes_allocated() const override { return pool_->bytes_allocated(); }
  std::int64_t total_bytes_allocated() const override { return pool_->total_bytes_allocated(); }
  std::int64_t num_allocations() const override { return pool_->num_allocations(); }
  std::string backend_name() const override { return pool_->backend_name(); }

 private:
  AllowancePool() = default;
  static std::int64_t& left() {
    thread_local std::int64_t bytes = 0;
    return bytes;
  }
  static arrow::Status take(std::int64_t bytes) {
    if (bytes > left())
      return arrow::Status::OutOfMemory("the rows take more memory than they may");
    left() -= bytes;
    return arrow::Status::OK();
  }

  arrow::MemoryPool* const pool_ = arrow::default_memory_pool();
};

}  // namespace train::data
