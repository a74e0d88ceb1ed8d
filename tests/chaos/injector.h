// Injects the next planned fault into a world, and undoes it when its time is over.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "tests/chaos/plan.h"
#include "tests/chaos/world.h"

namespace train::chaos {

class Injector {
 public:
  Injector(World& world, RoundPlan& plan) : world_(world), plan_(plan) {}

  /// Inject one fault; draw again while the drawn one finds no target. Return a line that describes
  /// it, with the time since the round began, or "" if nothing can be hit now.
  std::string strike();
  /// Undo the faults that are due; with `all`, undo every fault.
  void tick(bool all = false);
  bool quiet() const { return undos_.empty(); }
  const std::map<Fault, int>& counts() const { return counts_; }

 private:
  struct Undo {
    TimePoint due;
    int node;  // the node with the impaired link; −1: the fault hit a process
    std::function<void()> act;
  };

  /// Return a description of what was hit, or nothing if the target does not exist.
  std::optional<std::string> apply(const PlannedFault& fault);
  std::optional<std::string> kill(std::vector<pid_t> pids, const PlannedFault& fault);
  std::optional<std::string> stop(std::optional<pid_t> pid, const PlannedFault& fault);
  std::optional<std::string> on_daemon(const PlannedFault& fault);
  std::optional<std::string> on_link(const PlannedFault& fault);
  void undo_after(double seconds, int node, std::function<void()> act);
  bool link_is_hit(int node) const;

  World& world_;
  RoundPlan& plan_;
  std::list<Undo> undos_;
  std::map<Fault, int> counts_;
};

}  // namespace train::chaos
