#include "sdk/client/memory/allocation_watch.h"

#include <execinfo.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "sdk/client/memory/function_entries.h"
#include "sdk/client/memory/live_samples.h"
#include "sdk/client/memory/sample_distance.h"
#include "sdk/client/memory/sampled_stacks.h"

namespace train::sdk {
namespace {

constexpr int kOwnFramesMax = 8;
constexpr auto kSamplersEndWithin = std::chrono::seconds(2);

/// What is seen while somebody watches. It stays mapped, since other threads may still look at it
/// for a moment; its pages are given back.
struct Seen {
  LiveSamples live;
  SampledStacks stacks;
  std::atomic<std::uint64_t> unwatched;
};

/// What each thread needs. No constructor: threads may begin and end as they like.
struct ThisThread {
  std::uint64_t watch;  // the number of the watch that `distance` belongs to
  SampleDistance distance;
  bool sampling;  // what a sample itself allocates is none
};

// Whoever watches:
std::atomic<bool> taken = false;       // somebody does, or just ends it
std::atomic<Seen*> seen = nullptr;     // made once
std::atomic<std::uint64_t> watch = 0;  // the number of the current watch; 0: none
std::atomic<std::uint64_t> mean_bytes = kSampleBytes;
std::atomic<int> samplers = 0;  // threads that take a sample now
std::uint64_t watches = 0;
std::uint64_t libraries_known = 0;
int looks_left = 0;
EntriesChanged changed;
std::chrono::steady_clock::time_point began;
constinit thread_local ThisThread here{};

// ---- the functions between the program and the allocator

struct Originals {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*reallocarray)(void*, std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void (*free)(void*);
};
Originals original{};

/// Leaves out our own frames: the program's begin with the one that `caller` is in.
std::span<void* const> stack_from(const void* caller, std::span<void* const> frames) {
  const auto first = std::find(frames.begin(), frames.end(), caller);
  return first == frames.end() ? frames
                               : frames.subspan(static_cast<std::size_t>(first - frames.begin()));
}

// Not inlined: a call that is no sample needs none of its stack.
[[gnu::noinline]] void take_sample(void* address, std::size_t bytes, const void* caller, Seen& to) {
  const int error = errno;
  here.sampling = true;
  samplers.fetch_add(1);
  if (watch.load() == here.watch) {
    void* frames[kAllocationDepthMax + kOwnFramesMax];
    const int depth = ::backtrace(frames, static_cast<int>(std::size(frames)));
    const std::uint32_t stack = to.stacks.number_of(
        stack_from(caller, {frames, static_cast<std::size_t>(std::max(depth, 0))}));
    const std::uint64_t weight = sample_weight(bytes, mean_bytes.load(std::memory_order_relaxed));
    // Whoever freed what was here before has done so unseen.
    if (const auto stale = to.live.take(address)) to.stacks.freed(stale->stack, stale->bytes);
    to.stacks.allocated(stack, weight);
    if (!to.live.add(address, {.bytes = weight, .stack = stack}))
      to.unwatched.fetch_add(weight, std::memory_order_relaxed);
  }
  samplers.fetch_sub(1);
  here.sampling = false;
  errno = error;
}

[[gnu::always_inline]] inline void note_allocated(void* address, std::size_t bytes) {
  const std::uint64_t now = watch.load(std::memory_order_acquire);
  if (now == 0 || address == nullptr || here.sampling) return;
  const std::uint64_t mean = mean_bytes.load(std::memory_order_relaxed);
  if (here.watch != now) {
    here.watch = now;
    here.distance.begin(reinterpret_cast<std::uintptr_t>(&here) + (now << 48), mean);
  }
  if (here.distance.take(std::max<std::size_t>(bytes, 1), mean))
    take_sample(address, bytes, __builtin_return_address(0), *seen.load(std::memory_order_relaxed));
}

/// Note that an allocation is about to be freed: afterwards, its address may be another's.
[[gnu::always_inline]] inline std::optional<LiveSamples::Sample> note_freed(const void* address) {
  if (address == nullptr || watch.load(std::memory_order_acquire) == 0) return std::nullopt;
  Seen& from = *seen.load(std::memory_order_relaxed);
  auto sample = from.live.take(address);
  if (sample) from.stacks.freed(sample->stack, sample->bytes);
  return sample;
}

/// Take back a note_freed() of what was not freed in the end.
void note_kept(void* address, const std::optional<LiveSamples::Sample>& sample) {
  if (!sample || watch.load(std::memory_order_acquire) == 0) return;
  Seen& to = *seen.load(std::memory_order_relaxed);
  to.stacks.freed(sample->stack, std::uint64_t{0} - sample->bytes);
  if (!to.live.add(address, *sample))
    to.unwatched.fetch_add(sample->bytes, std::memory_order_relaxed);
}

void* our_malloc(std::size_t bytes) {
  void* address = original.malloc(bytes);
  note_allocated(address, bytes);
  return address;
}

void* our_calloc(std::size_t count, std::size_t bytes) {
  void* address = original.calloc(count, bytes);
  note_allocated(address, count * bytes);  // no overflow, or there is no address
  return address;
}

void* our_realloc(void* old, std::size_t bytes) {
  const auto sample = note_freed(old);
  void* address = original.realloc(old, bytes);
  if (address == nullptr && bytes > 0)
    note_kept(old, sample);
  else
    note_allocated(address, bytes);
  return address;
}

void* our_reallocarray(void* old, std::size_t count, std::size_t bytes) {
  const auto sample = note_freed(old);
  void* address = original.reallocarray(old, count, bytes);
  if (address == nullptr && count > 0 && bytes > 0)
    note_kept(old, sample);
  else
    note_allocated(address, count * bytes);
  return address;
}

int our_posix_memalign(void** to, std::size_t alignment, std::size_t bytes) {
  const int error = original.posix_memalign(to, alignment, bytes);
  if (error == 0) note_allocated(*to, bytes);
  return error;
}

void* our_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  void* address = original.aligned_alloc(alignment, bytes);
  note_allocated(address, bytes);
  return address;
}

void* our_memalign(std::size_t alignment, std::size_t bytes) {
  void* address = original.memalign(alignment, bytes);
  note_allocated(address, bytes);
  return address;
}

void* our_valloc(std::size_t bytes) {
  void* address = original.valloc(bytes);
  note_allocated(address, bytes);
  return address;
}

void our_free(void* address) {
  (void)note_freed(address);
  original.free(address);
}

// ---- whoever watches

template <class Function>
std::uintptr_t number_of(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function);
}

template <class Function>
void add(std::vector<Replacement>& all, const char* name, Function*& original_place,
         Function* ours) {
  const std::uintptr_t address = address_of_function(name);
  if (address == 0 || address == number_of(ours)) return;  // not of this C library
  original_place = std::bit_cast<Function*>(address);
  all.push_back({.name = name, .original = address, .ours = number_of(ours)});
}

const std::vector<Replacement>& replacements() {
  static const std::vector<Replacement> all = [] {
    std::vector<Replacement> found;
    add(found, "free", original.free, our_free);
    add(found, "malloc", original.malloc, our_malloc);
    add(found, "calloc", original.calloc, our_calloc);
    add(found, "realloc", original.realloc, our_realloc);
    add(found, "reallocarray", original.reallocarray, our_reallocarray);
    add(found, "posix_memalign", original.posix_memalign, our_posix_memalign);
    add(found, "aligned_alloc", original.aligned_alloc, our_aligned_alloc);
    add(found, "memalign", original.memalign, our_memalign);
    add(found, "valloc", original.valloc, our_valloc);
    return found;
  }();
  return all;
}

Result<Unit> make_room() {
  if (seen.load() != nullptr) return Unit{};
  void* memory = ::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return system_error(errno, "memory for a profile");
  ::madvise(memory, sizeof(Seen), MADV_NOHUGEPAGE);  // most of it is never touched
  seen = static_cast<Seen*>(memory);                 // zeros are a valid one
  return Unit{};
}

void look_at_libraries() {
  const EntriesChanged more = replace_functions(replacements());
  changed.entries += more.entries;
  // A library that is just being loaded may not have its entries yet.
  constexpr int kLooksAgain = 10;
  if (more.loaded != libraries_known || !more.complete) looks_left = kLooksAgain;
  libraries_known = more.loaded;
}

}  // namespace

Result<Unit> begin_watching_allocations(std::uint64_t sample_bytes) {
  if (taken.exchange(true))
    return Error{Errc::AlreadyExists, "another profile of its memory is being taken"};
  const auto failed = [](Error error) -> Result<Unit> {
    taken = false;
    return error;
  };
  if (const auto room = make_room(); !room) return failed(room.error());
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads the unwinder now
  mean_bytes = std::max<std::uint64_t>(sample_bytes, 1);
  changed = {};
  libraries_known = 0;
  began = std::chrono::steady_clock::now();
  look_at_libraries();
  if (changed.entries > 0) {
    watch = ++watches;  // not before: what is freed unseen would count as still allocated
    return Unit{};
  }
  return failed({Errc::Unavailable,
                 "its program calls the functions for memory at fixed addresses (it is linked "
                 "statically, or with a sanitizer), so they cannot be watched"});
}

void watch_new_libraries() {
  if (libraries_loaded() == libraries_known && looks_left == 0) return;
  looks_left = std::max(0, looks_left - 1);
  look_at_libraries();
}

WatchedAllocations end_watching_allocations() {
  watch = 0;
  restore_functions(replacements());
  const auto until = std::chrono::steady_clock::now() + kSamplersEndWithin;
  while (samplers.load() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Seen& all = *seen.load();
  WatchedAllocations found{.stacks = all.stacks.all()};
  found.facts = {.lasted_ns = static_cast<std::uint64_t>(
                     std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count()),
                 .sample_bytes = mean_bytes,
                 .entries = changed.entries,
                 .unwatched = all.unwatched};
  ::madvise(&all, sizeof all, MADV_DONTNEED);  // zeros again
  taken = false;
  return found;
}

void abandon_watch_in_fork_child() { watch = 0; }

}  // namespace train::sdk
