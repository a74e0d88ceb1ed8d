#include "tests/chaos/plan.h"

#include <array>

namespace train::chaos {
namespace {

constexpr std::array<std::string_view, 19> kNames{
    "kill worker", "kill supervisor", "kill traind",  "kill launcher", "lose node",
    "stop worker", "stop supervisor", "stop traind",  "stop launcher", "cut link",
    "deafen node", "mute node",       "lose packets", "delay link",    "reset link",
    "drain node",  "step clock",      "kill driver",  "stop driver"};

constexpr std::array kKills{Fault::KillWorker, Fault::KillSupervisor, Fault::KillDaemon,
                            Fault::KillLauncher};
constexpr std::array kClockSteps{-86'400, -3600, -30, 30, 3600, 86'400};

}  // namespace

std::string_view to_string(Fault fault) { return kNames[static_cast<std::size_t>(fault)]; }

RoundPlan::RoundPlan(const PlanOptions& options, int round, double seconds)
    : random_(options.seed * 1'000'003 + static_cast<std::uint64_t>(round)) {
  for (int warm_up = 0; warm_up < 8; ++warm_up) (void)random_();
  if (options.kills_only) {
    possible_.assign(kKills.begin(), kKills.end());
    shape_.checkpoint_every = 2000 / shape_.step_ms;
  } else {
    if (below(3) != 0) {
      shape_.workers_min = 2;
      shape_.workers_max = 8;
    }
    shape_.checkpoint_every = std::array<std::int64_t, 3>{20, 50, 100}[below(3)];
    shape_.standbys = std::array{0, 3, 8}[below(3)];
    shape_.agrees = below(2) == 0;
    shape_.relayed = below(2) == 0;
    shape_.fake_clock = below(2) == 0 && options.clock_can_be_faked;
    if (below(2) == 0) shape_.pace = std::array{1, 4, 16}[below(3)];
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const Fault fault = static_cast<Fault>(i);
      const bool of_relay = fault == Fault::DelayLink || fault == Fault::ResetLink;
      if (of_relay && !shape_.relayed) continue;
      if (fault == Fault::StepClock && !shape_.fake_clock) continue;
      const bool of_driver = fault == Fault::KillDriver || fault == Fault::StopDriver;
      if (of_driver && shape_.pace == 0) continue;
      possible_.push_back(fault);
    }
  }
  shape_.steps = static_cast<std::int64_t>(seconds * 1000 / shape_.step_ms);
  if (shape_.pace != 0) shape_.steps /= 2;  // each takes longer
}

PlannedFault RoundPlan::next() {
  PlannedFault planned;
  planned.fault = possible_[below(static_cast<std::uint32_t>(possible_.size()))];
  planned.node = static_cast<int>(below(Shape::kNodes));
  planned.pick = below(1u << 16);
  planned.seconds = below(3000) / 1000.0;  // a killed process comes back
  switch (planned.fault) {
    case Fault::LoseNode:
      planned.seconds += 3;
      break;
    case Fault::StopWorker:
    case Fault::StopSupervisor:
    case Fault::StopDaemon:
    case Fault::StopLauncher:
    case Fault::StopDriver:
    case Fault::CutLink:
    case Fault::DeafenNode:
    case Fault::MuteNode:
      planned.seconds = 0.5 + below(7500) / 1000.0;  // sometimes longer than node_dead_after
      break;
    case Fault::LosePackets:
      planned.seconds = 2 + below(6000) / 1000.0;
      planned.amount = 5 + static_cast<int>(below(36));
      break;
    case Fault::DelayLink:
      planned.seconds = 2 + below(6000) / 1000.0;
      planned.amount = 10 + static_cast<int>(below(790));
      break;
    case Fault::StepClock:
      planned.amount = kClockSteps[below(kClockSteps.size())];
      break;
    default:
      break;
  }
  return planned;
}

}  // namespace train::chaos
