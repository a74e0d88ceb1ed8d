// What all simulated programs of one run share, and what those on one host share.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tests/sim/checkers.h"
#include "tests/sim/network.h"

namespace train::sim {

struct Sim {
  Sim(const Plan& what, Mutant which)
      : plan(what), timeline(what.seed), check(timeline, plan), mutant(which) {}
  Sim(const Sim&) = delete;

  /// Return whether to take the unlucky turn; see Site.
  bool unlucky(Site site) {
    const std::uint32_t bit = 1u << static_cast<int>(site);
    if ((plan.armed & bit) == 0 || !faults_go_on() || !timeline.random.chance(0.05)) return false;
    fired |= bit;
    return true;
  }
  bool faults_go_on() const {
    return timeline.now().time_since_epoch() < seconds(1) + plan.faults_end;
  }
  template <class F>
  void after(Duration delay, F&& what) {
    timeline.after(delay, std::forward<F>(what));
  }
  Duration between(Duration low, Duration high) { return timeline.random.between(low, high); }

  const Plan plan;
  Timeline timeline;
  Checkers check;
  const Mutant mutant;
  std::uint32_t fired = 0;                      // sites
  std::function<void(Duration)> kill_launcher;  // for this long; set by the world
  bool disk_full = false;
  int ingest_processes = 0;  // started so far
  Duration disk_extra{};     // each store takes up to this much longer
};

/// One machine: its speed, its local sockets, and its processes by pid.
struct SimHost {
  int index = 0;
  int slow = 1;  // slowdown factor
  bool powered = true;
  std::uint64_t boots = 0;
  std::optional<TimePoint> healthy_since = TimePoint{};  // none: something is wrong with it
  std::optional<TimePoint> unwell_since;  // start of the first trouble that may still have effects
  SimPath local;                          // between processes of the host
  SimPath network;                        // to the launcher; side 0 is the launcher's
  std::vector<SimWorker*> pids;           // by pid − 1; the lowest free pid is used next

  int add_process(SimWorker* worker) {
    for (std::size_t i = 0; i < pids.size(); ++i) {
      if (pids[i] != nullptr) continue;
      pids[i] = worker;
      return static_cast<int>(i) + 1;
    }
    pids.push_back(worker);
    return static_cast<int>(pids.size());
  }
  SimWorker* process(std::int64_t pid) const {
    return pid > 0 && pid <= static_cast<std::int64_t>(pids.size()) ? pids[pid - 1] : nullptr;
  }
  void remove_process(std::int64_t pid) {
    if (process(pid) != nullptr) pids[pid - 1] = nullptr;
  }
  void be_slow(int times) {
    slow = times;
    local.delay_min = std::chrono::microseconds(20) * times;
    local.delay_max = std::chrono::microseconds(500) * times;
  }
};

}  // namespace train::sim
