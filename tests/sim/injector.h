// Injects the faults of a plan, and heals what they left when the time for faults is over.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/launcher.h"

namespace train::sim {

class Injector {
 public:
  Injector(Sim& sim, SimLauncher::Nodes& nodes, std::unique_ptr<SimLauncher>& launcher)
      : sim_(sim), nodes_(nodes), launcher_(launcher), isolations_(nodes.size()) {}

  void schedule();

 private:
  void inject(const Fault& fault);
  void strike_worker(const Fault& fault);
  void expect_hang_is_known(SimWorker* worker);
  void kill_daemon(const Fault& fault);
  void drain(const Fault& fault);
  void begin_rival(const Fault& fault);
  void cut_power(const Fault& fault);
  void block(const Fault& fault, bool up, bool down);
  void clog(const Fault& fault);
  void fill_disk(const Fault& fault);
  void attach_stale_launcher(int index);
  void heal();
  void unwell(int node, Duration length);
  void expect_verdict(int node, std::uint64_t isolation, Duration speaks);
  SimWorker* pick_worker(const Fault& fault);

  Sim& sim_;
  SimLauncher::Nodes& nodes_;
  std::unique_ptr<SimLauncher>& launcher_;
  struct Isolation {
    int blocked = 0;           // active faults that block it
    std::uint64_t number = 0;  // of the present isolation
    TimePoint unwell_until;
  };
  std::vector<Isolation> isolations_;  // by node
  std::vector<LinkPtr> stale_;
  int full_disks_ = 0, slow_disks_ = 0;
  int next_rival_ = 0;
};

}  // namespace train::sim
