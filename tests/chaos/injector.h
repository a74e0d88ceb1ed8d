// Does the next planned fault to a world, and undoes it when its time is over.
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

  /// Do one, drawn anew while what is drawn finds nothing to hit. A line that says what, with the
  /// time since the round began; "" when nothing can be hit now.
  std::string strike();
  /// Undo what is due; `all`: also what is not.
  void tick(bool all = false);
  bool quiet() const { return undos_.empty(); }
  const std::map<Fault, int>& counts() const { return counts_; }

 private:
  struct Undo {
    TimePoint due;
    int node;  // whose link is not as it should be; −1: a process
    std::function<void()> act;
  };

  /// What was hit; nothing when it is not there.
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
