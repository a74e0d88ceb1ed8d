// A simulated node: its traind (the real NodeAgent, surrounded by what daemon/server/daemon.cc
// does), and its supervisor processes, which outlive traind.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "daemon/core/node_agent.h"
#include "tests/sim/supervisor.h"

namespace train::sim {

class SimNode {
 public:
  SimNode(Sim& sim, int index);

  bool up() const { return agent_ != nullptr; }
  /// A launcher has connected; traind is side 1.
  void accept(LinkPtr link);
  void crash();
  void restart();
  /// Tell traind to leave: runs have `grace` to leave the node, then traind stops.
  void drain(Duration grace);
  bool draining() const { return drain_until_.has_value(); }
  void lose_power();
  void boot();
  void say_everything_again();
  /// Return whether some launcher holds the lease, as far as this traind knows.
  bool leased() const;
  /// Let another run claim room here, until it ends. `rival`: its number.
  void begin_rival(int rival, double cpus);
  void end_rival(int rival);
  SimHost& host() { return host_; }
  const SimHost& host() const { return host_; }
  std::vector<std::unique_ptr<SimSupervisor>>& supervisors() { return all_; }

 private:
  struct Launcher {
    LinkPtr link;
    std::uint64_t generation = 0;  // that the launcher named
    TimePoint last_heard;
    Duration silence_max = seconds(10);
    std::uint64_t watch = 0;  // of its silence; a newer one replaces an older one
  };
  void from_launcher(LinkId id, const SimFrame& frame);
  void relay(LinkId id, const SimFrame& frame);
  void attach(LinkId id, const AttachRun& message);
  void drop_launcher(LinkId id);
  void watch(LinkId id);
  LinkPtr serve_supervisor(SimSupervisor* supervisor, AttemptKey key, bool ours);
  void supervisor_left(const SimLink* link, AttemptKey key, bool ours, bool adopting);
  void feed(const NodeEvent& event);
  void perform(const NodeAction& action);
  void spawn(const SpawnSupervisor& action);
  void reap_leftovers(const AttemptKey& key);
  void expire_drain(int times_left);
  void leave_when_drained();
  void to_launcher(LinkId id, SimFrame frame);
  /// Run `what` later, unless this traind is dead by then.
  template <class F>
  void later(Duration delay, F what) {
    sim_.after(delay * host_.slow, [this, incarnation = incarnation_, what = std::move(what)] {
      if (up() && incarnation == incarnation_) what();
    });
  }

  Sim& sim_;
  SimHost host_;
  std::unique_ptr<NodeAgent> agent_;
  std::uint64_t incarnation_ = 0;
  LinkId next_link_ = 1;
  std::optional<TimePoint> drain_until_;
  std::map<LinkId, Launcher> launchers_;
  std::uint64_t newest_generation_ = 0;         // that this traind has heard of
  std::map<AttemptKey, LinkPtr> supervisors_;   // only those that have said hello
  std::vector<LinkPtr> serving_;                // to all of them
  std::map<AttemptKey, SimSupervisor*> files_;  // what a restarted traind finds
  std::vector<std::unique_ptr<SimSupervisor>> all_;
};

}  // namespace train::sim
