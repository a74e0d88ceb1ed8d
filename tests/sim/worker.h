// A simulated worker: what the SDK and a training loop do, as seen from the supervisor. Reports,
// checkpoints, joins barriers, stops in good order (with the SDK's own StopGate), and dies in every
// way.
#pragma once

#include <functional>
#include <optional>

#include "daemon/supervisor/core/worker_group.h"
#include "sdk/client/stop_gate.h"
#include "tests/sim/faults.h"
#include "tests/sim/network.h"

namespace train::sim {

class Checkers;

struct WorkerPlace {
  int node = 0;
  Attempt attempt;
  Rank rank;
  int local_rank = 0, local_world_size = 1, world_size = 1, node_rank = 0;
};

class SimWorker {
 public:
  SimWorker(Timeline& timeline, Checkers& check, const Plan& plan, WorkerPlace place,
            std::int64_t first_step);

  /// Begin to run; `link`'s side 0 is the worker. `reaped` is called once, when its parent sees its
  /// end.
  void start(LinkPtr link, std::function<void(WaitStatus)> reaped);
  void signal(int number);
  void crash(int pick);
  void hang() { hung_ = true; }
  void orphaned();  // its supervisor died: the kernel kills it, nobody reaps it for us

  bool alive() const { return alive_; }
  bool kill_sent() const { return kill_sent_; }
  bool stop_sent() const { return stop_sent_; }
  const WorkerPlace& place() const { return place_; }
  std::uint64_t ordinal() const { return ordinal_; }
  bool stopped_at_gate() const { return gate_.finished(); }

 private:
  void received(const SimFrame& frame);
  void begin_step();
  void report();
  void after_report();
  void go_on();
  void stage(std::uint64_t ordinal);
  void join_barrier();
  void leave(int code);
  void die(WaitStatus status, Duration within);
  void send(Payload payload) { link_->send(0, {place_.attempt, std::move(payload)}); }
  /// Run `what` later, unless the worker is dead or hangs by then.
  void later(Duration delay, void (SimWorker::*what)());

  Timeline& timeline_;
  Checkers& check_;
  const Plan& plan_;
  WorkerPlace place_;
  LinkPtr link_;
  std::function<void(WaitStatus)> reaped_;
  sdk::StopGate gate_;
  std::int64_t step_;  // steps done, over all attempts
  std::uint64_t ordinal_ = 0, checkpoint_index_ = 0, last_checkpoint_ordinal_ = 0, barriers_ = 0;
  std::optional<std::pair<std::uint64_t, bool>> announced_;
  bool in_report_ = false, in_barrier_ = false, stop_checkpoint_made_ = false;
  bool alive_ = true, dying_ = false, hung_ = false, kill_sent_ = false, stop_sent_ = false;
};

}  // namespace train::sim
