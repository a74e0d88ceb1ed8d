// Memory that an ingest worker shares with a rank: slots, each a memfd, which the ingest worker
// fills and the rank maps. A slot is used for one answer after another, since making memory costs
// more than filling it. A slot cannot shrink, so nobody's access to it can fail, and only the
// ingest worker can write to it: what a rank writes to its mapping is its own.
#pragma once

#include <arrow/type_fwd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/data/serve/messages.h"

namespace train::data {

/// A mapped memfd.
class SlotMemory {
 public:
  /// Make the memory, filled with zeros and sealed, and map it for writing. NoSpace if there is not
  /// enough memory.
  static Result<std::unique_ptr<SlotMemory>> make(std::int64_t bytes);
  /// Map memory that somebody else has made. Protocol if it could shrink, or is no memory.
  static Result<std::unique_ptr<SlotMemory>> map(FileDescriptor descriptor);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  std::uint8_t* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_.get(); }
  /// Drop what this process has written to memory that somebody else has made.
  void forget_writes() const;

 private:
  SlotMemory(FileDescriptor descriptor, std::uint8_t* data, std::int64_t bytes)
      : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {}

  FileDescriptor descriptor_;
  std::uint8_t* const data_;
  const std::int64_t bytes_;
};

/// The slots of one connection, in the ingest worker.
class SlotArena {
 public:
  struct Taken {
    std::uint32_t slot = 0;
    const SlotMemory* memory = nullptr;
    bool is_new = false;  // the rank does not have its descriptor
  };
  /// `bytes_max`: of slots in use, but one more may be taken as long as there are not as many.
  explicit SlotArena(std::int64_t bytes_max) : bytes_max_(bytes_max) {}

  void set_bytes_max(std::int64_t bytes) { bytes_max_ = bytes; }
  bool has_room() const { return used_ < kSlotsMax && used_bytes_ <= bytes_max_; }
  /// Take a slot of at least so many bytes; there is room.
  Result<Taken> take(std::int64_t bytes);
  /// Protocol if it is not taken.
  Result<Unit> release(std::uint32_t slot);
  /// Take a slot back that the rank has never heard of, and its memory with it.
  void give_up(std::uint32_t slot);

 private:
  struct Slot {
    std::unique_ptr<SlotMemory> memory = {};
    bool used = false;
  };
  std::int64_t bytes_max_;
  std::array<Slot, kSlotsMax> slots_;
  std::size_t used_ = 0;
  std::int64_t used_bytes_ = 0;
};

/// The slots of one connection, in the rank.
class SlotTable {
 public:
  SlotTable();

  /// Let a slot be this memory. Protocol if the slot is in use.
  Result<Unit> set(std::uint32_t slot, FileDescriptor descriptor);
  /// Return a slot's memory. It is in use until nobody holds the buffer any more, or a slice of it;
  /// any thread may be the last. Protocol if there is no such slot, or it is in use.
  Result<std::shared_ptr<arrow::Buffer>> use(std::uint32_t slot);
  /// Return the slots that are no longer in use, each once.
  std::vector<std::uint32_t> take_released();
  /// Slots in use, and their bytes.
  std::size_t held() const;
  std::int64_t held_bytes() const;

 private:
  class Use;
  struct State;
  std::shared_ptr<State> state_;  // shared with the buffers, which may outlive the table
  std::array<std::shared_ptr<const SlotMemory>, kSlotsMax> slots_;
};

}  // namespace train::data
