// What a crash handler copies of its process: the stack from below the stack pointer, as far as it
// goes and fits.
#include "sdk/client/crash_record.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string_view>

namespace train::sdk {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kPage = 4096, kRedZone = 128;

/// Memory in place of a stack: `below` bytes that nobody may read, and then `bytes` of letters.
struct FakeStack {
  FakeStack(std::size_t below, std::size_t bytes) : below(below), bytes(bytes) {
    all = static_cast<char*>(
        ::mmap(nullptr, below + bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(::mprotect(begin(), bytes, PROT_READ | PROT_WRITE), 0);
    for (std::size_t i = 0; i < bytes; ++i) begin()[i] = static_cast<char>('a' + i % 23);
  }
  ~FakeStack() { ::munmap(all, below + bytes + kPage); }
  FakeStack(const FakeStack&) = delete;
  FakeStack& operator=(const FakeStack&) = delete;
  char* begin() const { return all + below; }

  std::size_t below, bytes;
  char* all;
};

/// Return the record of a crash with the stack pointer there.
std::unique_ptr<CrashRecord> record_at(const char* pointer) {
  auto record = std::make_unique<CrashRecord>();
  siginfo_t signal{};
  signal.si_signo = SIGSEGV;
  signal.si_code = SEGV_MAPERR;
  signal.si_addr = &signal;
  ucontext_t context{};
  context.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(pointer);
  context.uc_mcontext.gregs[REG_RIP] = 77;
  record_crashes_in(record.get());
  EXPECT_TRUE(record_crash(signal, &context));
  EXPECT_FALSE(record_crash(signal, &context)) << "only the first crash is recorded";
  EXPECT_EQ(record->state, CrashRecord::kComplete);
  EXPECT_EQ(record->signal, SIGSEGV);
  EXPECT_EQ(record->code, SEGV_MAPERR);
  EXPECT_EQ(record->address, reinterpret_cast<std::uint64_t>(&signal));
  EXPECT_EQ(record->pid, ::getpid());
  EXPECT_EQ(record->tid, ::gettid());
  EXPECT_EQ(record->registers[7], reinterpret_cast<std::uint64_t>(pointer));
  EXPECT_EQ(record->registers[16], 77u);
  const std::string_view maps(record->maps.data(), record->maps_bytes);
  EXPECT_NE(maps.find("[vdso]"), std::string_view::npos);
  return record;
}

void expect_bytes(const CrashRecord& record, const char* from, std::size_t bytes) {
  EXPECT_EQ(record.stack_start, reinterpret_cast<std::uint64_t>(from));
  ASSERT_EQ(record.stack_bytes, bytes);
  EXPECT_EQ(std::memcmp(record.stack.data(), from, bytes), 0);
}

TEST(CrashRecord, HoldsTheStackFromItsRedZoneToItsEnd) {
  const FakeStack stack(kPage, 5 * kPage);
  const char* pointer = stack.begin() + kPage + 1000;
  expect_bytes(*record_at(pointer), pointer - kRedZone, 4 * kPage - 1000 + kRedZone);
}

TEST(CrashRecord, HoldsNoMoreOfTheStackThanFits) {
  const FakeStack stack(kPage, kCrashStackBytesMax + 4 * kPage);
  const char* pointer = stack.begin() + 1000;
  expect_bytes(*record_at(pointer), pointer - kRedZone, kCrashStackBytesMax);
}

TEST(CrashRecord, AfterAnOverflowBeginsWhereTheStackDoes) {
  const FakeStack stack(8 * kPage, 3 * kPage);
  const char* pointer = stack.begin() - 5 * kPage + 1000;
  expect_bytes(*record_at(pointer), stack.begin(), 3 * kPage);
}

TEST(CrashRecord, IsEmptyWhereNoStackIsNearItsPointer) {
  const FakeStack stack(100 * kPage, kPage);
  auto record = std::make_unique<CrashRecord>();
  siginfo_t signal{};
  ucontext_t context{};
  context.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(stack.all + kPage);
  record_crashes_in(record.get());
  EXPECT_FALSE(record_crash(signal, &context));
  EXPECT_EQ(record->state, CrashRecord::kComplete);
  EXPECT_EQ(record->stack_bytes, 0u);
}
#endif

TEST(CrashRecord, OfAForkedChildIsNotItsParents) {
  auto record = std::make_unique<CrashRecord>();
  record_crashes_in(record.get());
  const pid_t child = ::fork();
  if (child == 0) {
    siginfo_t signal{};
    ucontext_t context{};
    ::_exit(record_crash(signal, &context) || record->state != CrashRecord::kNone ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  record_crashes_in(nullptr);
}

}  // namespace
}  // namespace train::sdk
