#include "tests/sim/driver.h"

#include <algorithm>

namespace train::sim {

void SimDriver::attempt_began(Attempt attempt, int world_size) {
  attempt_ = attempt;
  reports_.assign(static_cast<std::size_t>(world_size), 0);
  taken_ = 0;
}

void SimDriver::logged(Attempt attempt, Rank rank, std::uint64_t last) {
  if (dead_ || attempt != attempt_) return;
  std::uint64_t& reports = reports_.at(static_cast<std::size_t>(rank.value));
  reports = std::max(reports, last);
  take_round();
}

bool SimDriver::has_round() const {
  return std::all_of(reports_.begin(), reports_.end(),
                     [&](std::uint64_t reports) { return reports > taken_; });
}

void SimDriver::take_round() {
  if (dead_ || busy_ || !has_round()) return;
  busy_ = true;
  const Duration stall = std::max<Duration>(Duration{0}, stalls_until_ - sim_.timeline.now());
  const Duration takes = stall + sim_.between(Duration{0}, sim_.plan.driver.round_max);
  sim_.after(takes, [this, attempt = attempt_, round = taken_ + 1] {
    busy_ = false;
    if (dead_) return;
    if (sim_.timeline.now() < stalls_until_) return take_round();
    if (attempt == attempt_) taken_ = round;
    handlers_.acknowledged(attempt, round);  // also of an attempt that has ended meanwhile
    take_round();
  });
}

void SimDriver::stall(Duration length) { stalls_until_ = sim_.timeline.now() + length; }

void SimDriver::die() {
  if (std::exchange(dead_, true)) return;
  handlers_.gone();
}

}  // namespace train::sim
