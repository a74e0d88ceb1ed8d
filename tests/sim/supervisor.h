// A simulated supervisor process: the real WorkerGroup, surrounded by what
// daemon/supervisor/supervisor.cc does: it keeps what the launcher has not acknowledged, and
// resends everything when a launcher is back.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "daemon/core/node_agent.h"
#include "daemon/supervisor/core/worker_ending.h"
#include "daemon/supervisor/core/worker_group.h"
#include "daemon/supervisor/workers/answered_collectives.h"
#include "tests/sim/ingest.h"
#include "tests/sim/sim.h"
#include "tests/sim/worker.h"

namespace train::sim {

class SimSupervisor {
 public:
  SimSupervisor(Sim& sim, SimHost& host, const SpawnSupervisor& spawned);

  /// Connect to traind, for the first time or again; the supervisor is side 1.
  void attach(LinkPtr link);
  void on_exit(std::function<void()> what) { on_exit_ = std::move(what); }
  void crash();
  void vanish();                // with its host
  void say_everything_again();  // to the attached launcher
  bool alive() const { return alive_; }
  SimIngestPool& ingest() { return ingest_; }
  const std::vector<std::unique_ptr<SimWorker>>& workers() const { return workers_; }

 private:
  struct Seat {
    WorkerRanks ranks;
    SimWorker* worker = nullptr;
    std::int64_t pid = 0;
    bool from_standby = false;
    LinkPtr link;
    std::vector<std::pair<std::uint64_t, SimFrame>>
        reports;                                    // not acknowledged, by last report_seq
    std::map<std::uint64_t, SimFrame> shards;       // not resolved
    std::map<std::uint64_t, SimFrame> collectives;  // not answered
    std::uint64_t last_report_seq = 0;
    int staging = 0;
    bool connected = false;
    bool joined = false;                 // it said hello: before that, nothing can be sent to it
    std::optional<WorkerEnding> ending;  // set when it is dead
    SimEnd end;
    bool output_ended = false;
    bool said_goodbye = false, told_to_stop = false;
  };
  void received(const SimFrame& frame);
  void on_prepare(const PrepareAttempt& message);
  void on_start(const StartWorkers& message);
  void on_acks(const AckReports& message);
  void sample_later();
  void sample_datasets_later();
  void on_roster(const SimFrame& frame);
  void on_validate(const RunValidation& order);
  void from_worker(Rank rank, const SimFrame& frame);
  void pause_passed_on(Seat& seat) const;
  void store(Rank rank, const CheckpointStaged& staged);
  void shard_stored(Rank rank, const ShardWritten& shard);
  WorkerLocation location_of(Rank rank) const;
  void spawn(Rank rank);
  void reaped(Rank rank, const SimEnd& end);
  void tell_exit(Rank rank);
  void advance_ending(Rank rank);
  void feed(const GroupEvent& event);
  void perform(const GroupAction& action);
  void signal(const SignalWorker& wanted);
  void arm();
  void set_presence(bool present);
  void expect_no_orphans();
  void send(SimFrame frame);
  template <class T>
  SimFrame frame(T message) const {
    return frame_of(key_.attempt, std::move(message));
  }
  void say(SimFrame frame);
  void to_workers(const SimFrame& frame);
  void request_checkpoint(const RequestCheckpoint& order, const SimFrame& frame);
  void cannot_be_asked(Rank rank);
  void end(bool released);

  Sim& sim_;
  SimHost& host_;
  AttemptKey key_;
  WorkerGroup group_;
  Duration orphan_timeout_, stop_grace_ = seconds(30);
  std::uint64_t generation_ = 0;           // the highest that it has heard of
  std::uint64_t resolved_checkpoint_ = 0;  // the newest that it has heard of
  std::optional<TimePoint> absent_since_;  // of a launcher, as far as it was told
  LinkPtr link_;
  std::function<void()> on_exit_;
  std::optional<PrepareAttempt> prepare_;
  std::optional<StartWorkers> start_;
  int standbys_ = 0;  // started and alive
  std::map<Rank, Seat> seats_;
  std::map<Rank, TellExited> exits_;
  AnsweredCollectives answered_;
  std::optional<SimFrame> pause_;  // the newest
  RequestCheckpoint checkpoint_request_;
  std::optional<std::uint64_t> validating_;
  std::optional<ValidationEnded> validated_;  // the newest
  SimIngestPool ingest_;
  std::optional<SimFrame> roster_;  // the newest
  std::uint64_t roster_version_ = 0;
  Duration ranks_waited_{};  // each of them, for rows
  std::vector<SimFrame> lifecycle_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  TimePoint disk_free_;
  TimePoint armed_;
  bool alive_ = true;
};

}  // namespace train::sim
