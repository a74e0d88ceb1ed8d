// Training as far as a watch can tell, until it is let go: a step every 20 ms, reported through the
// SDK, and then an event (events.h). `stepper together`: after each step the ranks agree whether to
// go on, by a collective that goes through the launcher.
#include <train/train.h>

#include <string_view>

#include "benchmarks/programs/events.h"

int main(int argc, char** argv) {
  const bool together = argc > 1 && std::string_view(argv[1]) == "together";
  return train::run(argc, argv, [&] {
    constexpr useconds_t kStepUs = 20'000;
    for (int step = 0;; ++step) {
      bool goes_on = bench::held();
      if (together) goes_on = train::broadcast_from_rank_zero(goes_on).as<bool>();
      if (!goes_on) return;
      usleep(kStepUs);
      train::report({{"step", step}});
      bench::event("step");
    }
  });
}
