// A program that is not position-independent, and has taken the address of malloc: its malloc is
// code of its own that jumps on. Watches itself; exit code 0: it has seen what it allocated.
#include <cstdio>
#include <cstdlib>

#include "sdk/client/memory/allocation_watch.h"

int main() {
  using namespace train::sdk;
  void* (*volatile allocate)(std::size_t) = &std::malloc;
  void (*volatile release)(void*) = &std::free;
  if (!begin_watching_allocations(4096)) return 2;
  void* const kept = allocate(std::size_t{16} << 20);
  for (int i = 0; i < 1000; ++i) release(allocate(16 << 10));
  std::uint64_t live = 0, all = 0;
  for (const auto& stack : end_watching_allocations().stacks) {
    live += stack.live;
    all += stack.allocated;
  }
  release(kept);
  std::printf("%llu live of %llu\n", static_cast<unsigned long long>(live),
              static_cast<unsigned long long>(all));
  return live >= (16u << 20) && live < (17u << 20) && all > (28u << 20) ? 0 : 1;
}
