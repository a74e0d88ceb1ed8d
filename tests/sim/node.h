// A simulated node: its traind (the real NodeAgent and what daemon/server/daemon.cc does around
// it), and its supervisor processes, which outlive traind.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "daemon/core/node_agent.h"
#include "tests/sim/supervisor.h"

namespace train::sim {

class SimNode {
 public:
  SimNode(Timeline& timeline, Checkers& check, const Plan& plan, Mutant mutant, int index);

  bool up() const { return agent_ != nullptr; }
  /// A launcher connects; traind is side 1.
  void accept(LinkPtr link);
  void crash();
  void restart();
  std::vector<std::unique_ptr<SimSupervisor>>& supervisors() { return all_; }

 private:
  void from_launcher(LinkId id, const SimFrame& frame);
  LinkPtr serve_supervisor(SimSupervisor* supervisor, AttemptKey key, bool ours);
  void feed(const NodeEvent& event);
  void perform(const NodeAction& action);
  void spawn(const SpawnSupervisor& action);
  void to_launcher(LinkId id, SimFrame frame);
  /// Run `what` later, unless this traind is dead by then.
  void later(Duration delay, std::function<void()> what);

  Timeline& timeline_;
  Checkers& check_;
  const Plan& plan_;
  Mutant mutant_;
  int index_;
  std::unique_ptr<NodeAgent> agent_;
  std::uint64_t incarnation_ = 0;
  LinkId next_link_ = 1;
  std::map<LinkId, LinkPtr> launchers_;
  std::map<LinkId, std::uint64_t> epochs_;      // as they said
  std::map<AttemptKey, LinkPtr> supervisors_;   // that have said hello
  std::vector<LinkPtr> serving_;                // to all of them
  std::map<AttemptKey, SimSupervisor*> files_;  // what a traind finds after its restart
  std::vector<std::unique_ptr<SimSupervisor>> all_;
};

}  // namespace train::sim
