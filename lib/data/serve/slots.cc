#include "lib/data/serve/slots.h"

#include <arrow/buffer.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <mutex>

namespace train::data {
namespace {

constexpr std::int64_t kSlotBytesMax = std::int64_t{1} << 40;
constexpr std::int64_t kPage = 64 << 10;

/// Return the size of a slot for so many bytes: answers are of about the same size, and one that is
/// a little larger than the one before should fit.
std::int64_t slot_bytes(std::int64_t bytes) {
  return (std::max<std::int64_t>(bytes, 1) + bytes / 8 + kPage - 1) / kPage * kPage;
}

}  // namespace

Result<std::unique_ptr<SlotMemory>> SlotMemory::make(std::int64_t bytes) {
  static constexpr std::string_view kDoing = "making shared memory for rows";
  FileDescriptor descriptor(::memfd_create("trainrun-rows", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.get() < 0) return system_error(errno, kDoing);
  // With all of its pages: else a write to it fails where nobody can be told.
  int failed = 0;
  do failed = ::posix_fallocate(descriptor.get(), 0, bytes);
  while (failed == EINTR);
  if (failed != 0) return system_error(failed, kDoing);
  void* const data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return system_error(errno, kDoing);
  std::unique_ptr<SlotMemory> memory(
      new SlotMemory(std::move(descriptor), static_cast<std::uint8_t*>(data), bytes));
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (::fcntl(memory->descriptor(), F_ADD_SEALS, kSeals) != 0) return system_error(errno, kDoing);
  return memory;
}

Result<std::unique_ptr<SlotMemory>> SlotMemory::map(FileDescriptor descriptor) {
  static constexpr std::string_view kDoing = "mapping an ingest worker's rows";
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Error{Errc::Protocol, "a slot is no memory, or it could shrink"};
  struct stat about {};
  if (::fstat(descriptor.get(), &about) != 0) return system_error(errno, kDoing);
  if (about.st_size <= 0 || about.st_size > kSlotBytesMax)
    return Error{Errc::Protocol, fmt::format("a slot has {} bytes", about.st_size)};
  void* const data = ::mmap(nullptr, static_cast<std::size_t>(about.st_size),
                            PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor.get(), 0);
  if (data == MAP_FAILED) return system_error(errno, kDoing);
  return std::unique_ptr<SlotMemory>(
      new SlotMemory(std::move(descriptor), static_cast<std::uint8_t*>(data), about.st_size));
}

SlotMemory::~SlotMemory() { ::munmap(data_, static_cast<std::size_t>(bytes_)); }

void SlotMemory::forget_writes() const {
  ::madvise(data_, static_cast<std::size_t>(bytes_), MADV_DONTNEED);
}

Result<SlotArena::Taken> SlotArena::take(std::int64_t bytes) {
  Slot* best = nullptr;   // the smallest that suffices
  Slot* other = nullptr;  // else one without memory, or the smallest
  for (Slot& slot : slots_) {
    if (slot.used) continue;
    const std::int64_t has = slot.memory ? slot.memory->bytes() : 0;
    if (has >= bytes && has > 0 && (best == nullptr || has < best->memory->bytes())) best = &slot;
    if (other == nullptr || has < (other->memory ? other->memory->bytes() : 0)) other = &slot;
  }
  Taken taken;
  if (best == nullptr) {
    // Answers have grown: free slots are too small for all of the next ones as well.
    for (Slot& slot : slots_)
      if (!slot.used) slot.memory.reset();
    best = other;
    TRY(best->memory, SlotMemory::make(slot_bytes(bytes)));
    taken.is_new = true;
  }
  best->used = true;
  ++used_;
  used_bytes_ += best->memory->bytes();
  taken.slot = static_cast<std::uint32_t>(best - slots_.data());
  taken.memory = best->memory.get();
  return taken;
}

Result<Unit> SlotArena::release(std::uint32_t slot) {
  if (slot >= slots_.size() || !slots_[slot].used)
    return Error{Errc::Protocol, fmt::format("slot {} is released, and was not in use", slot)};
  slots_[slot].used = false;
  --used_;
  used_bytes_ -= slots_[slot].memory->bytes();
  return Unit{};
}

void SlotArena::give_up(std::uint32_t slot) {
  if (release(slot)) slots_[slot].memory.reset();
}

struct SlotTable::State {
  std::mutex mutex;
  std::bitset<kSlotsMax> used;
  std::vector<std::uint32_t> released;
  std::int64_t bytes = 0;
};

/// The memory of a slot, for one answer.
class SlotTable::Use final : public arrow::Buffer {
 public:
  Use(std::uint32_t slot, std::shared_ptr<const SlotMemory> memory, std::shared_ptr<State> state)
      : arrow::Buffer(memory->data(), memory->bytes()),
        slot_(slot),
        memory_(std::move(memory)),
        state_(std::move(state)) {}
  ~Use() override {
    memory_->forget_writes();
    const std::lock_guard lock(state_->mutex);
    state_->used.reset(slot_);
    state_->released.push_back(slot_);
    state_->bytes -= memory_->bytes();
  }

 private:
  const std::uint32_t slot_;
  const std::shared_ptr<const SlotMemory> memory_;
  const std::shared_ptr<State> state_;
};

SlotTable::SlotTable() : state_(std::make_shared<State>()) {}

Result<Unit> SlotTable::set(std::uint32_t slot, FileDescriptor descriptor) {
  {
    const std::lock_guard lock(state_->mutex);
    if (slot >= slots_.size() || state_->used.test(slot))
      return Error{Errc::Protocol, fmt::format("slot {} is replaced while it is in use", slot)};
  }
  TRY(slots_[slot], SlotMemory::map(std::move(descriptor)));
  return Unit{};
}

Result<std::shared_ptr<arrow::Buffer>> SlotTable::use(std::uint32_t slot) {
  if (slot >= slots_.size() || !slots_[slot])
    return Error{Errc::Protocol, fmt::format("there is no slot {}", slot)};
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->used.test(slot))
      return Error{Errc::Protocol, fmt::format("slot {} is filled while it is in use", slot)};
    state_->used.set(slot);
    state_->bytes += slots_[slot]->bytes();
  }
  return std::make_shared<Use>(slot, slots_[slot], state_);
}

std::vector<std::uint32_t> SlotTable::take_released() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->released, {});
}

std::size_t SlotTable::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->used.count();
}

std::int64_t SlotTable::held_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes;
}

}  // namespace train::data
