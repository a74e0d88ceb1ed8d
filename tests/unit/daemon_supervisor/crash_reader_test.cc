// Reads records of crashes: those that the SDK's handler makes of a real crash, and those that no
// handler would make.
#include "daemon/supervisor/workers/crash_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "lib/progress/progress_memory.h"
#include "sdk/client/crash_record.h"

namespace train {
namespace {

CrashStack stack_of(const ProcessCapture& capture) {
  return crash_stacks({capture}, std::chrono::steady_clock::now() + seconds(60)).at(0);
}

class CrashReader : public testing::Test {
 protected:
  CrashRecord& record() const { return memory_.crash(); }
  const ProgressMemory memory_ = ProgressMemory::make().value();
};

TEST_F(CrashReader, FindsNothingWhereNothingCrashed) {
  EXPECT_FALSE(crash_capture(record(), SIGSEGV));
  record().signal = SIGSEGV;
  record().state = CrashRecord::kWriting;  // it died before its record was complete
  EXPECT_FALSE(crash_capture(record(), SIGSEGV));
}

TEST_F(CrashReader, TakesNoRecordOfAnotherSignalThanTheOneThatKilled) {
  record().signal = SIGABRT;
  record().state = CrashRecord::kComplete;
  EXPECT_FALSE(crash_capture(record(), SIGKILL));
  EXPECT_TRUE(crash_capture(record(), SIGABRT));
}

TEST_F(CrashReader, TrustsNoField) {
  std::memset(static_cast<void*>(&record()), 0xff, sizeof record());
  record().signal = SIGSEGV;
  record().state = CrashRecord::kComplete;

  const auto capture = crash_capture(record(), SIGSEGV);

  ASSERT_TRUE(capture);
  EXPECT_EQ(capture->threads.at(0).stack.size(), kCrashStackBytesMax);
  EXPECT_EQ(capture->threads.at(0).facts.name.size(), 16u);
  EXPECT_EQ(capture->mappings.size(), 0u);
  EXPECT_TRUE(capture->ended);
  const CrashStack stack = stack_of(*capture);
  EXPECT_EQ(stack.place, "");
  EXPECT_THAT(stack.frames, testing::HasSubstr("none of its files can be read"));
}

TEST_F(CrashReader, KeepsNoMoreMappingsThanAnUnwinderTakes) {
  std::string maps;
  for (int i = 1; maps.size() + 64 < kCrashMapsBytesMax; ++i)
    maps += fmt::format("{:x}000-{:x}000 r-xp 0 8:1 5 /x\n", 2 * i, 2 * i + 1);
  std::memcpy(record().maps.data(), maps.data(), maps.size());
  record().maps_bytes = maps.size();
  record().signal = SIGSEGV;
  record().state = CrashRecord::kComplete;

  EXPECT_EQ(crash_capture(record(), SIGSEGV)->mappings.size(), kCapturedMappingsMax);
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// As where a container forbids process_vm_readv(2), or the stack pointer itself is damaged.
TEST_F(CrashReader, GetsTheRegistersOfACrashWithoutAStack) {
  sdk::record_crashes_in(&record());
  siginfo_t info{};
  info.si_signo = SIGSEGV;
  ucontext_t context{};
  context.uc_mcontext.gregs[REG_RSP] = 4096;
  context.uc_mcontext.gregs[REG_RIP] = 0x1234;

  EXPECT_FALSE(sdk::record_crash(info, &context)) << "the SDK must print what it can";

  const auto capture = crash_capture(record(), SIGSEGV);
  ASSERT_TRUE(capture);
  EXPECT_EQ(capture->threads.at(0).pc, 0x1234u);
  EXPECT_EQ(capture->threads.at(0).stack, "");
}

// In a child, which has its own copy of all this.
TEST_F(CrashReader, MakesAStackOfARealCrash) {
  const pid_t child = ::fork();
  if (child == 0) {
    sdk::record_crashes_in(&record());
    struct sigaction action {};
    action.sa_sigaction = [](int, siginfo_t* info, void* context) {
      sdk::record_crash(*info, context);
      std::signal(SIGSEGV, SIG_DFL);
    };
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, nullptr);
    *static_cast<volatile int*>(nullptr) = 1;
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  const auto capture = crash_capture(record(), WTERMSIG(status));

  ASSERT_TRUE(capture);
  EXPECT_EQ(capture->pid, child);
  EXPECT_EQ(record().address, 0u);
  const CrashStack stack = stack_of(*capture);
  EXPECT_THAT(stack.frames, testing::HasSubstr("MakesAStackOfARealCrash"));
  EXPECT_THAT(stack.frames, testing::HasSubstr("main"));
}
#endif

}  // namespace
}  // namespace train
