// The minimal worker: it records that its first line ran, then ends, or stays until it is killed
// (events.h).
#include "benchmarks/programs/events.h"

int main() {
  bench::event("first_line");
  if (bench::held()) {
    for (;;) pause();
  }
  return 0;
}
