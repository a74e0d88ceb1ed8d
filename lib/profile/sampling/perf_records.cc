#include "lib/profile/sampling/perf_records.h"

#include <linux/perf_event.h>

#include <array>
#include <bit>
#include <cstring>

namespace train {
namespace {

// A register's place in a sample (asm/perf_regs.h: ax bx cx dx si di bp sp ip, r8 to r15), by its
// DWARF number (System V ABI, AMD64 supplement, figure 3.36).
constexpr std::array<std::size_t, 17> kPlaces = {0,  3,  2,  1,  4,  5,  6,  7, 9,
                                                 10, 11, 12, 13, 14, 15, 16, 8};
constexpr std::size_t kSp = 7, kPc = 16;  // DWARF numbers

/// Reads numbers in the machine's byte order, as the kernel writes them.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view bytes(std::uint64_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }
  bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

/// pid, tid; abi, registers; size, stack, size of what of it is valid
bool read_sample(std::string_view body, ThreadCapture& thread) {
  Fields in(body);
  (void)in.number<std::uint32_t>();
  thread.facts.tid = static_cast<pid_t>(in.number<std::uint32_t>());
  if (in.number<std::uint64_t>() != PERF_SAMPLE_REGS_ABI_64)
    return false;  // a kernel thread, or 32 bits
  std::array<std::uint64_t, kPlaces.size()> registers{};
  for (std::uint64_t& value : registers) value = in.number<std::uint64_t>();
  thread.registers.clear();
  for (const std::size_t place : kPlaces) thread.registers.push_back(registers[place]);
  thread.sp = thread.stack_start = thread.registers[kSp];
  thread.pc = thread.registers[kPc];
  const auto size = in.number<std::uint64_t>();
  const std::string_view stack = in.bytes(size);
  const std::uint64_t valid = size == 0 ? 0 : in.number<std::uint64_t>();
  thread.stack = stack.substr(0, valid);
  return in.ok();
}

}  // namespace

static_assert(std::popcount(kPerfRegisters) == static_cast<int>(kPlaces.size()));

void read_perf_records(std::string_view records, const std::function<void(ThreadCapture)>& sample,
                       PerfCounts& counts) {
  while (records.size() >= sizeof(perf_event_header)) {
    perf_event_header header{};
    std::memcpy(&header, records.data(), sizeof header);
    if (header.size < sizeof header || header.size > records.size()) return;
    const std::string_view body = records.substr(sizeof header, header.size - sizeof header);
    records.remove_prefix(header.size);
    if (header.type == PERF_RECORD_LOST) {
      Fields in(body);
      (void)in.number<std::uint64_t>();  // the event
      counts.lost += in.number<std::uint64_t>();
    } else if (header.type == PERF_RECORD_SAMPLE) {
      ThreadCapture thread;
      if (read_sample(body, thread)) sample(std::move(thread));
    }
  }
}

}  // namespace train
