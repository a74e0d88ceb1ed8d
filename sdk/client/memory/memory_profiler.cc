#include "sdk/client/memory/memory_profiler.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "lib/base/thread.h"
#include "sdk/client/memory/allocation_watch.h"
#include "sdk/client/memory/language_profiler.h"

namespace train::sdk {
namespace {

constexpr auto kTimeMax = std::chrono::seconds(60);
constexpr auto kLookEvery = std::chrono::milliseconds(100);
// Of one message: at most 9 bytes an address.
constexpr std::size_t kAddressesOfMessageMax = 64u << 10;
constexpr std::size_t kStacksOfMessageMax = 4096;
constexpr std::size_t kNameBytesOfMessageMax = 256u << 10;

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
  const auto time =
      std::min<std::chrono::milliseconds>(std::chrono::milliseconds(order.time_ms), kTimeMax);
  std::string note;
  std::optional<Result<SeenAllocations>> seen;
  if (order.names) seen = take_by_language(time, note);
  if (!seen) {
    seen = take(time);
    if (*seen) (*seen)->note = std::move(note);
  }
  if (seen->has_error()) {
    send_({.request = order.request, .last = true, .error = seen->error().describe()});
    return;
  }
  for (const AllocationStacks& piece : answer_in_pieces(order.request, std::move(**seen)))
    send_(piece);
}

std::optional<Result<SeenAllocations>> MemoryProfiler::take_by_language(
    std::chrono::milliseconds time, std::string& note) {
  const LanguageProfilerUse use;
  const LanguageProfiler* profiler = use.profiler();
  if (profiler == nullptr) return std::nullopt;
  note = profiler->begin();
  if (!note.empty()) return std::nullopt;
  const auto began = std::chrono::steady_clock::now();
  auto now = began;
  while (!use.is_unwanted() && !wait_until(std::min(began + time, now + kLookEvery)) &&
         now < began + time)
    now = std::chrono::steady_clock::now();
  SeenAllocations seen{.engine = profiler->engine};
  NamedStacks stacks;
  const std::string failed = profiler->end(stacks);
  if (!failed.empty()) return Error{Errc::Unavailable, failed};
  seen.stacks = stacks.take();
  seen.names = stacks.names();
  seen.facts.lasted_ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count());
  return seen;
}

Result<SeenAllocations> MemoryProfiler::take(std::chrono::milliseconds time) {
  TRY_VOID(begin_watching_allocations(kSampleBytes));
  const auto until = std::chrono::steady_clock::now() + time;
  while (!wait_until(std::min(until, std::chrono::steady_clock::now() + kLookEvery)) &&
         std::chrono::steady_clock::now() < until)
    watch_new_libraries();
  WatchedAllocations seen = end_watching_allocations();
  return SeenAllocations{.stacks = std::move(seen.stacks), .facts = seen.facts};
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

std::vector<AllocationStacks> answer_in_pieces(std::uint64_t request, SeenAllocations seen) {
  std::vector<AllocationStacks> pieces(1);
  std::size_t size = 0;
  const auto make_room = [&](std::size_t wanted, std::size_t size_max) {
    if (pieces.back().stacks.size() == kStacksOfMessageMax || size + wanted > size_max) {
      pieces.emplace_back();
      size = 0;
    }
    size += wanted;
  };
  for (std::string& name : seen.names) {
    make_room(name.size(), kNameBytesOfMessageMax);
    pieces.back().names.push_back(std::move(name));
  }
  if (!pieces.back().names.empty()) pieces.emplace_back();
  size = 0;
  for (AllocationStack& stack : seen.stacks) {
    make_room(stack.addresses.size(), kAddressesOfMessageMax);
    pieces.back().stacks.push_back(std::move(stack));
  }
  for (AllocationStacks& piece : pieces) {
    piece.request = request;
    piece.engine = seen.engine;
  }
  pieces.back().last = true;
  pieces.back().facts = seen.facts;
  pieces.back().note = std::move(seen.note);
  return pieces;
}

}  // namespace train::sdk
