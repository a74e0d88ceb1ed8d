// The simulated driver of a run, the launcher's parent process: takes rounds as sdk/trainer does,
// each for a while, and acknowledges them.
#pragma once

#include <functional>
#include <vector>

#include "tests/sim/sim.h"

namespace train::sim {

class SimDriver {
 public:
  struct Handlers {
    std::function<void(Attempt attempt, std::uint64_t rounds)> acknowledged;
    std::function<void()> gone;
  };
  SimDriver(Sim& sim, Handlers handlers) : sim_(sim), handlers_(std::move(handlers)) {}

  void attempt_began(Attempt attempt, int world_size);
  void logged(Attempt attempt, Rank rank, std::uint64_t last);
  void stall(Duration length);
  void die();

 private:
  void take_round();
  bool has_round() const;

  Sim& sim_;
  const Handlers handlers_;
  Attempt attempt_{};
  std::vector<std::uint64_t> reports_;  // by rank
  std::uint64_t taken_ = 0;
  bool busy_ = false, dead_ = false;
  TimePoint stalls_until_{};
};

}  // namespace train::sim
