#include "sdk/client/crash_record.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>

namespace train::sdk {
namespace {

// Below the stack pointer, a function that calls no other may keep data (the ABI's red zone).
constexpr std::uint64_t kRedZoneBytes = 128;

std::atomic<CrashRecord*> where = nullptr;
pid_t owner = 0;

#if defined(__x86_64__)
/// Return the stack pointer.
std::uint64_t copy_registers(const ucontext_t& context, CrashRecord& record) {
  // System V ABI, AMD64 supplement, figure 3.36: DWARF register number mapping.
  constexpr int kOrder[kCrashRegisters] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                           REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                           REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (std::size_t i = 0; i < kCrashRegisters; ++i)
    record.registers[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
}
#else
std::uint64_t copy_registers(const ucontext_t&, CrashRecord&) { return 0; }
#endif

/// Copy memory of this process. The kernel copies, so that what is not mapped is no fault.
bool copy_memory(std::uint64_t from, std::size_t bytes, void* to, pid_t self) {
  const iovec local{to, bytes}, remote{std::bit_cast<void*>(from), bytes};
  return ::process_vm_readv(self, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

/// Copy as much of the stack as there is. After an overflow, the stack pointer is somewhat below
/// it.
void copy_stack(std::uint64_t pointer, CrashRecord& record) {
  constexpr std::size_t kPage = 4096, kPagesBelowMax = 64;
  std::uint64_t from = pointer - kRedZoneBytes;
  record.stack_start = from;
  for (std::size_t below = 0; record.stack_bytes < kCrashStackBytesMax;) {
    std::size_t bytes = kPage - from % kPage;
    if (bytes > kCrashStackBytesMax - record.stack_bytes)
      bytes = kCrashStackBytesMax - record.stack_bytes;
    if (copy_memory(from, bytes, record.stack.data() + record.stack_bytes, record.pid))
      record.stack_bytes += bytes;
    else if (record.stack_bytes == 0 && ++below < kPagesBelowMax)
      record.stack_start = from + bytes;
    else
      return;
    from += bytes;
  }
}

void copy_maps(CrashRecord& record) {
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  while (record.maps_bytes < kCrashMapsBytesMax) {
    const ssize_t got = ::read(file, record.maps.data() + record.maps_bytes,
                               kCrashMapsBytesMax - record.maps_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    record.maps_bytes += static_cast<std::uint64_t>(got);
  }
  ::close(file);
}

}  // namespace

void record_crashes_in(CrashRecord* record) {
  owner = ::getpid();
  where = record;
}

bool record_crash(const siginfo_t& signal, const void* context) {
  CrashRecord* record = where.exchange(nullptr);
  if (record == nullptr || ::getpid() != owner) return false;
  record->state.store(CrashRecord::kWriting, std::memory_order_relaxed);
  record->signal = signal.si_signo;
  record->code = signal.si_code;
  record->pid = owner;
  record->tid = static_cast<std::int32_t>(::syscall(SYS_gettid));
  record->address = reinterpret_cast<std::uint64_t>(signal.si_addr);
  ::prctl(PR_GET_NAME, record->thread_name.data());
  const std::uint64_t pointer = copy_registers(*static_cast<const ucontext_t*>(context), *record);
  if (pointer == 0) return false;
  copy_stack(pointer, *record);
  copy_maps(*record);
  record->state.store(CrashRecord::kComplete, std::memory_order_release);
  return record->stack_bytes > 0;
}

}  // namespace train::sdk
