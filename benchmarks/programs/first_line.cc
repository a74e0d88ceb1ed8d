// The least that a worker can do: say that its first line ran, then end, or stay until it is killed
// (events.h).
#include "benchmarks/programs/events.h"

int main() {
  bench::event("first_line");
  if (bench::held()) {
    for (;;) pause();
  }
  return 0;
}
