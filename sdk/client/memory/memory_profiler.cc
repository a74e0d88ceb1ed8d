#include "sdk/client/memory/memory_profiler.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "lib/base/thread.h"
#include "sdk/client/memory/allocation_watch.h"

namespace train::sdk {
namespace {

constexpr auto kTimeMax = std::chrono::seconds(60);
constexpr auto kLookEvery = std::chrono::milliseconds(100);
// Of one message: at most 9 bytes an address.
constexpr std::size_t kAddressesOfMessageMax = 64u << 10;
constexpr std::size_t kStacksOfMessageMax = 4096;

}  // namespace

std::string MemoryProfiler::begin(const TakeMemoryProfile& order) {
  const std::lock_guard lock(mutex_);
  if (ended_) return "the worker has left its loop";
  if (running_) return "another profile of its memory is being taken";
  if (thread_.joinable()) thread_.join();  // it has nothing left to do
  cancelled_ = false;
  running_ = true;
  try {
    thread_ = start_thread("trainrun-memory", [this, order] {
      run(order);
      running_ = false;
    });
  } catch (const std::system_error& error) {
    running_ = false;
    return error.what();
  }
  return "";
}

void MemoryProfiler::run(const TakeMemoryProfile& order) {
  const auto began = begin_watching_allocations(kSampleBytes);
  if (!began) {
    send_({.request = order.request, .last = true, .error = began.error().describe()});
    return;
  }
  const auto until =
      std::chrono::steady_clock::now() +
      std::min<std::chrono::milliseconds>(std::chrono::milliseconds(order.time_ms), kTimeMax);
  while (!wait_until(std::min(until, std::chrono::steady_clock::now() + kLookEvery)) &&
         std::chrono::steady_clock::now() < until)
    watch_new_libraries();
  WatchedAllocations seen = end_watching_allocations();
  for (const AllocationStacks& piece :
       answer_in_pieces(order.request, std::move(seen.stacks), seen.facts))
    send_(piece);
}

bool MemoryProfiler::wait_until(std::chrono::steady_clock::time_point time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, time, [this] { return cancelled_; });
}

void MemoryProfiler::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

void MemoryProfiler::end() {
  std::thread last;
  {
    const std::lock_guard lock(mutex_);
    ended_ = cancelled_ = true;
    changed_.notify_all();
    last = std::move(thread_);
  }
  if (last.joinable()) last.join();
}

std::vector<AllocationStacks> answer_in_pieces(std::uint64_t request,
                                               std::vector<AllocationStack> stacks,
                                               const AllocationFacts& facts) {
  std::vector<AllocationStacks> pieces(1);
  std::size_t addresses = 0;
  for (AllocationStack& stack : stacks) {
    if (pieces.back().stacks.size() == kStacksOfMessageMax ||
        addresses + stack.addresses.size() > kAddressesOfMessageMax) {
      pieces.emplace_back();
      addresses = 0;
    }
    addresses += stack.addresses.size();
    pieces.back().stacks.push_back(std::move(stack));
  }
  for (AllocationStacks& piece : pieces) piece.request = request;
  pieces.back().last = true;
  pieces.back().facts = facts;
  return pieces;
}

}  // namespace train::sdk
