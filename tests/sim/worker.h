// A simulated worker does what the SDK and a training loop do, as seen from the supervisor: it
// reports, checkpoints, joins barriers, stops gracefully (with the SDK's own StopGate), makes
// checkpoints that it is asked for (with its CheckpointGate), and dies in every way.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "daemon/supervisor/core/worker_group.h"
#include "lib/model/rank_sample.h"
#include "sdk/client/checkpoint_gate.h"
#include "sdk/client/stop_gate.h"
#include "tests/sim/faults.h"
#include "tests/sim/network.h"

namespace train::sim {

struct Sim;
struct SimHost;

struct WorkerLocation {
  int node = 0;
  Attempt attempt;
  WorkerRanks ranks;
  Rank rank() const { return Rank{ranks.rank}; }
};

struct SimEnd {
  WaitStatus status;
  bool out_of_memory = false;  // according to its cgroup
};

class SimWorker {
 public:
  SimWorker(Sim& sim, SimHost& host, WorkerLocation location, const JobContext& context);

  /// Begin to run. The worker is side 0 of `link`. The parent calls `reaped` once, when it sees the
  /// worker's end.
  void start(LinkPtr link, std::function<void(SimEnd)> reaped);
  void signal(int number);
  void crash(int pick);
  void run_out_of_memory();
  /// Show no sign of life any more. `loops`: it uses a CPU all the time.
  void hang(bool loops);
  /// SIGSTOP, then SIGCONT. `in_kernel`: it waits in the kernel instead, and no signal reaches it.
  void stop_for(Duration length, bool in_kernel);
  /// Take so much longer for the next step. `idle`: it does not use its CPU meanwhile.
  void be_slow_once(Duration length, bool idle);
  void orphaned();  // its supervisor died: the kernel kills it, and nobody reaps it for us
  void vanish();    // with its host

  bool alive() const { return alive_; }
  bool kill_sent() const { return kill_sent_; }
  const WorkerLocation& location() const { return location_; }
  std::uint64_t report_seq() const { return report_seq_; }
  std::int64_t pid() const { return pid_; }
  bool in_kernel() const { return in_kernel_; }
  bool hangs() const { return alive_ && (hung_ || stopped_); }
  /// Return the newest roster of ingest workers.
  const IngestRoster& roster() const { return roster_; }
  /// Return since when it takes what it is sent; none: it does not.
  std::optional<TimePoint> listens_since() const {
    return may_act() && !stopped_ ? hello_at_ : std::nullopt;
  }
  /// Return for how long it has shown no sign of life.
  Duration silent_for() const;
  /// The same, less the time in which other ranks had not come to its barrier.
  Duration silent_by_itself_for() const;
  /// What its supervisor sees of it.
  RankSample sample();
  /// Return the longest time without a sign of life that was its own doing, until somebody ended
  /// it, as a share of what it may take.
  double longest_silence() const;

 private:
  // Of a worker that does not train:
  void join();
  void end_well();
  /// Show a sign of life.
  void mark(Phase phase);
  bool waits() const { return in_barrier_ || in_report_ || waits_for_room_; }
  double silence() const;
  void count_cpu();
  void go_on_after_stop();
  void received(const SimFrame& frame);
  void begin_step();
  void report();
  void after_report();
  void go_on();
  void stage(std::uint64_t report_seq, std::uint64_t request = 0);
  void join_barrier();
  void leave(int code);
  void die(SimEnd end, Duration within);
  void gone(SimEnd end);
  template <class T>
  void send(T message) {
    link_->send(0, frame_of(location_.attempt, std::move(message)));
  }
  bool may_act() const { return alive_ && !dying_ && !hung_; }  // once it is not stopped
  bool checkpoint_due(std::int64_t step) const;
  /// Run `what` later, unless the worker is dead or hangs by then. A slow host takes longer.
  void later(Duration delay, void (SimWorker::*what)());

  Sim& sim_;
  SimHost& host_;
  WorkerLocation location_;
  std::int64_t pid_ = 0;
  LinkPtr link_;
  std::function<void(SimEnd)> reaped_;
  sdk::StopGate gate_;
  sdk::CheckpointGate checkpoint_gate_;
  std::uint64_t checkpoint_calls_ = 0;
  std::int64_t step_;  // steps done, over all attempts
  std::uint64_t report_seq_ = 0, checkpoint_seq_ = 0, last_checkpoint_report_seq_ = 0,
                barriers_ = 0;
  std::vector<std::uint64_t> unacknowledged_;  // last report_seqs of batches
  const std::uint32_t report_window_;
  std::uint64_t acknowledged_ = 0;  // the report_seq
  std::uint64_t resolved_ = 0;      // checkpoints
  std::optional<WorkerPaused> announced_;
  IngestRoster roster_;
  std::optional<TimePoint> hello_at_;
  bool in_report_ = false, in_barrier_ = false, waits_for_room_ = false;
  bool stop_checkpoint_made_ = false, said_hello_ = false;
  bool told_to_stop_ = false;  // should_stop() was true, and it left
  Phase phase_ = Phase::None;
  std::uint64_t signs_ = 0, steps_ended_ = 0, calls_ended_ = 0;
  TimePoint sign_at_, cpu_counted_at_, born_at_;
  TimePoint answered_at_;  // by the newest result of a barrier
  Duration cpu_{};
  double longest_silence_ = 0;
  bool hang_loops_ = false, slow_idle_ = false, stopped_ = false, in_kernel_ = false;
  Duration slow_by_{};                           // the next step
  std::vector<std::function<void()>> deferred_;  // until it is no longer stopped
  bool alive_ = true, dying_ = false, hung_ = false, kill_sent_ = false, stop_sent_ = false;
};

}  // namespace train::sim
