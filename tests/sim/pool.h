// Many runs that share a pool of nodes, in virtual time: real controllers and real node agents,
// with links that take their time, workers that fail and launchers that die. Only workers and
// supervisors are made up. What must hold is checked while it goes on.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/node_agent.h"
#include "launcher/core/run_controller.h"
#include "tests/sim/timeline.h"

namespace train::sim {

struct PoolRunPlan {
  Duration at{};  // when somebody starts it
  int workers = 1, workers_max = 0;
  double cpus = 1;  // of each worker
  int priority = 0;
  std::string owner = "ada";
  Duration takes = seconds(10);
  int failures = 0;   // so many attempts fail, half-way
  bool dies = false;  // its launcher does, when the workers are half-way
  PlacementStrategy strategy = PlacementStrategy::Pack;
  std::vector<int> nodes = {};  // that it may use; empty: all
};

struct PoolPlan {
  std::uint64_t seed = 1;
  int nodes = 4;
  double cpus = 4;
  std::vector<PoolRunPlan> runs;
  bool prints = false;         // what happens
  bool keeps_no_room = false;  // a mutant: nobody tells nodes what to keep
};

class Pool {
 public:
  explicit Pool(PoolPlan plan);
  ~Pool();
  Pool(const Pool&) = delete;

  /// Let it go on until nothing happens any more, or for at most a day.
  void run();
  /// What went wrong; "": nothing.
  const std::string& violation() const { return violation_; }
  /// Return when the last run ended.
  TimePoint ended() const { return ended_; }
  /// Return how often a run began where others wait before it.
  int checked() const { return checked_; }
  /// Return when the run had all its workers for the first time.
  TimePoint began(int run) const;
  TimePoint started() const { return TimePoint{seconds(1)}; }

 private:
  struct Run;
  struct Supervisor;
  struct Node;
  void start(int number);
  void feed(Run& run, const RunEvent& event);
  void perform(Run& run, const RunAction& action);
  void arm(Run& run);
  void die(Run& run);
  void feed(Node& node, const NodeEvent& event);
  void perform(Node& node, const NodeAction& action);
  void prepare(Run& run, const Prepare& what);
  LinkId link_of(const std::string& run_id) const;
  void start_workers(Node& node, const AttemptKey& key, const Start& action);
  void end_workers(Node& node, const AttemptKey& key, int status, bool killed);
  template <class F>
  void to_node(Run& run, NodeId id, F what);
  void to_run(Node& node, LinkId link, RunEvent event);
  void check_placed(const Run& run);
  void check_turn(const Run& run, NodeId id, double cpus);
  void fail(std::string what);

  const PoolPlan plan_;
  Timeline timeline_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::string violation_;
  int checked_ = 0;
  TimePoint ended_{};
};

}  // namespace train::sim
