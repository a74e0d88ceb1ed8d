// A worker that trains, as far as a watch can tell: a step every 20 ms, each an event (events.h),
// until it is let go.
#include "benchmarks/programs/events.h"

int main() {
  constexpr useconds_t kStepUs = 20'000;
  while (bench::held()) {
    usleep(kStepUs);
    bench::event("step");
  }
  return 0;
}
