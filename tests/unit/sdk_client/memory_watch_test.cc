// This process watches what it allocates itself.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "sdk/client/memory/allocation_watch.h"
#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

constexpr std::size_t kMiB = 1u << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kWatchable =
    false;  // the program calls the sanitizer's functions at fixed addresses
#else
constexpr bool kWatchable = true;
#endif

struct Bytes {
  std::uint64_t allocated = 0, live = 0;
};

/// Return what the stacks through a call that returns to `address` have allocated.
Bytes through(const WatchedAllocations& seen, const void* address) {
  Bytes bytes;
  for (const AllocationStack& stack : seen.stacks) {
    if (std::find(stack.addresses.begin(), stack.addresses.end(),
                  reinterpret_cast<std::uintptr_t>(address)) == stack.addresses.end())
      continue;
    bytes.allocated += stack.allocated;
    bytes.live += stack.live;
  }
  return bytes;
}

/// Keeps what is allocated from being optimised away.
void* volatile last = nullptr;

[[gnu::noinline]] const void* leak(std::size_t count, std::vector<void*>& kept) {
  for (std::size_t i = 0; i < count; ++i) kept.push_back(std::malloc(1000));
  return __builtin_return_address(0);
}
[[gnu::noinline]] const void* churn(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    void* const memory = std::malloc(100 << 10);
    last = memory;
    std::free(memory);
  }
  return __builtin_return_address(0);
}

class MemoryWatch : public testing::Test {
 protected:
  void SetUp() override {
    if (!kWatchable) GTEST_SKIP() << "SKIPPED: a sanitizer has its own malloc";
  }
  void TearDown() override {
    for (void* one : kept_) std::free(one);
  }
  static void begin(std::uint64_t sample_bytes = 64u << 10) {
    const auto begun = begin_watching_allocations(sample_bytes);
    ASSERT_TRUE(begun) << begun.error().describe();
  }
  std::vector<void*> kept_;
};

TEST_F(MemoryWatch, TellsWhatEachCallHasAllocatedAndNotFreed) {
  kept_.reserve(100'000);
  begin();
  const void* leaks = leak(64 * kMiB / 1000, kept_);
  const void* churns = churn(2'000);
  const WatchedAllocations seen = end_watching_allocations();

  EXPECT_NEAR(static_cast<double>(through(seen, leaks).allocated), 64.0 * kMiB, 6.4 * kMiB);
  EXPECT_EQ(through(seen, leaks).live, through(seen, leaks).allocated);
  EXPECT_NEAR(static_cast<double>(through(seen, churns).allocated), 195.0 * kMiB, 10.0 * kMiB);
  EXPECT_EQ(through(seen, churns).live, 0u);
  EXPECT_EQ(seen.facts.sample_bytes, 64u << 10);
  EXPECT_GT(seen.facts.lasted_ns, 0u);
  EXPECT_EQ(seen.facts.unwatched, 0u);
}

TEST_F(MemoryWatch, SeesNothingBeforeAndAfterAndPutsAllEntriesBack) {
  (void)churn(100);
  begin();
  const std::uint64_t entries = end_watching_allocations().facts.entries;
  const void* churns = churn(1000);
  begin();  // of a function that was not put back, nothing would lead to the original
  const WatchedAllocations seen = end_watching_allocations();
  EXPECT_GE(seen.facts.entries, entries);
  EXPECT_EQ(through(seen, churns).allocated, 0u);
}

TEST_F(MemoryWatch, OneAtATime) {
  begin();
  const auto second = begin_watching_allocations(1);
  (void)end_watching_allocations();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "another profile of its memory is being taken");
}

TEST_F(MemoryWatch, KnowsAllFunctionsForMemory) {
  begin(1);  // each is a sample
  const auto is_seen = [](const auto& allocate) {
    void* const memory = allocate();
    last = memory;
    std::uint64_t live = 0;
    for (const AllocationStack& stack : end_watching_allocations().stacks) live += stack.live;
    begin(1);
    std::free(memory);
    return live >= 3 * kMiB && live < 4 * kMiB;
  };
  EXPECT_TRUE(is_seen([] { return std::malloc(3 * kMiB); }));
  EXPECT_TRUE(is_seen([] { return std::calloc(3, kMiB); }));
  EXPECT_TRUE(is_seen([] { return std::realloc(nullptr, 3 * kMiB); }));
  EXPECT_TRUE(is_seen([] { return std::realloc(std::malloc(kMiB), 3 * kMiB); }));
  EXPECT_TRUE(is_seen([] { return ::reallocarray(nullptr, 3, kMiB); }));
  EXPECT_TRUE(is_seen([] { return std::aligned_alloc(4096, 3 * kMiB); }));
  EXPECT_TRUE(is_seen([] { return ::memalign(4096, 3 * kMiB); }));
  EXPECT_TRUE(is_seen([] { return ::valloc(3 * kMiB); }));
  EXPECT_TRUE(is_seen([] {
    void* memory = nullptr;
    EXPECT_EQ(::posix_memalign(&memory, 4096, 3 * kMiB), 0);
    return memory;
  }));
  EXPECT_TRUE(is_seen([] { return ::operator new(3 * kMiB); }));
  EXPECT_TRUE(
      is_seen([] { return static_cast<void*>(::strdup(std::string(3 * kMiB, 'x').c_str())); }));
  (void)end_watching_allocations();
}

[[gnu::noinline]] const void* grow(std::vector<void*>& kept) {
  void* memory = std::malloc(kMiB);
  memory = std::realloc(memory, 2 * kMiB);
  kept.push_back(memory);
  void* const refused = std::realloc(memory, ~std::size_t{0} / 2);
  return refused == nullptr ? __builtin_return_address(0) : nullptr;
}

TEST_F(MemoryWatch, AReallocFreesTheOldMemoryIfItSucceeds) {
  begin(1);
  const void* grows = grow(kept_);
  const WatchedAllocations seen = end_watching_allocations();
  EXPECT_GE(through(seen, grows).live, 2 * kMiB);
  EXPECT_LT(through(seen, grows).live, 2 * kMiB + 4096);
  EXPECT_GE(through(seen, grows).allocated, 3 * kMiB);
}

TEST_F(MemoryWatch, LeavesErrnoAlone) {
  begin(1);
  errno = 42;
  std::free(std::malloc(10));
  const int error = errno;
  (void)end_watching_allocations();
  EXPECT_EQ(error, 42);
}

TEST_F(MemoryWatch, SeesLibrariesThatAreLoadedMeanwhile) {
  begin(1);
  void* library = ::dlopen(ALLOCATING_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto allocate =
      reinterpret_cast<void* (*)(std::size_t)>(::dlsym(library, "allocate_in_library"));
  const auto release = reinterpret_cast<void (*)(void*)>(::dlsym(library, "free_in_library"));
  watch_new_libraries();
  void* kept = allocate(3 * kMiB);
  release(allocate(5 * kMiB));
  ::dlclose(library);  // its entries are gone when the others are put back
  const WatchedAllocations seen = end_watching_allocations();
  std::free(kept);
  std::uint64_t allocated = 0, live = 0;
  for (const AllocationStack& stack : seen.stacks) {
    allocated += stack.allocated;
    live += stack.live;
  }
  EXPECT_GE(allocated, 8 * kMiB);
  EXPECT_GE(live, 3 * kMiB);
  EXPECT_LT(live, 5 * kMiB);
}

TEST_F(MemoryWatch, ThreadsAllocateAndFreeWhileItBeginsAndEnds) {
  std::atomic<bool> enough = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&enough, t] {
      std::vector<std::string> texts(64);
      for (std::size_t i = 0; !enough; ++i) {
        texts[i % 64] = std::string(100 + i % 5000, 'x');
        if (i % 100 == static_cast<std::size_t>(t)) std::thread([] { last = nullptr; }).join();
      }
    });
  }
  for (int round = 0; round < 30; ++round) {
    begin(1024);
    watch_new_libraries();
    (void)churn(10);
    const WatchedAllocations seen = end_watching_allocations();
    EXPECT_FALSE(seen.stacks.empty());
  }
  enough = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MemoryWatch, AForkedChildGoesOnUnwatched) {
  std::atomic<bool> enough = false;
  std::thread other([&] {
    while (!enough) (void)churn(1);
  });
  begin(1024);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (i % 2 == 0) abandon_watch_in_fork_child();  // a raw clone(2) has no handlers
      (void)churn(100);
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  (void)end_watching_allocations();
  enough = true;
  other.join();
}

TEST_F(MemoryWatch, OfAProgramWithFixedAddresses) { EXPECT_EQ(std::system(FIXED_ADDRESSES), 0); }

// ---- the session

TEST_F(MemoryWatch, AWorkerAnswersItsSupervisor) {
  Worker worker;
  worker.supervisor.send(TakeMemoryProfile{.request = 5, .time_ms = 300});
  const void* churns = churn(1);
  for (std::size_t i = 0; worker.supervisor.count(MessageType::AllocationStacks) == 0; ++i)
    churns = churn(1);
  const auto answer = worker.supervisor.wait_for<AllocationStacks>();
  EXPECT_EQ(answer.request, 5u);
  EXPECT_TRUE(answer.last);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.facts.sample_bytes, kSampleBytes);
  EXPECT_GE(answer.facts.lasted_ns, 300'000'000u);
  EXPECT_GT(through({answer.stacks, answer.facts}, churns).allocated, kMiB);
}

TEST_F(MemoryWatch, ASecondProfileIsRefusedWhileOneIsTaken) {
  Worker worker;
  worker.supervisor.send(TakeMemoryProfile{.request = 1, .time_ms = 60'000});
  worker.supervisor.send(TakeMemoryProfile{.request = 2, .time_ms = 1});
  const auto answer = worker.supervisor.wait_for<AllocationStacks>();
  EXPECT_EQ(answer.request, 2u);
  EXPECT_EQ(answer.error, "another profile of its memory is being taken");
}

TEST_F(MemoryWatch, WhatThereIsIsSentBeforeTheWorkerLeaves) {
  Worker worker;
  worker.supervisor.send(TakeMemoryProfile{.request = 1, .time_ms = 60'000});
  worker.supervisor.send(TakeMemoryProfile{.request = 2, .time_ms = 1});
  worker.supervisor.wait_for<AllocationStacks>();  // the first has begun
  worker.session->finish();
  const auto answer = worker.supervisor.wait_for<AllocationStacks>(1);
  EXPECT_EQ(answer.request, 1u);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(worker.supervisor.frame_names().back(), "WorkerGoodbye");
}

TEST_F(MemoryWatch, EndsIfTheSupervisorEnds) {
  Worker worker;
  worker.supervisor.send(TakeMemoryProfile{.request = 1, .time_ms = 60'000});
  worker.supervisor.send(TakeMemoryProfile{.request = 2, .time_ms = 1});
  worker.supervisor.wait_for<AllocationStacks>();
  worker.supervisor.hang_up();
  Result<Unit> begun = Error{};
  while (!(begun = begin_watching_allocations(1))) std::this_thread::yield();
  (void)end_watching_allocations();
}

}  // namespace
}  // namespace train::sdk
