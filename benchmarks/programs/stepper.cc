// Simulates training until it is released: a step every 20 ms, reported through the SDK, followed
// by an event (events.h). `stepper together`: after each step the ranks agree by a collective
// through the launcher whether to go on.
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
