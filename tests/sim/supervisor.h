// A simulated supervisor process: the real WorkerGroup, and what daemon/supervisor/supervisor.cc
// does around it: keeps what the launcher has not acknowledged, and says everything again when a
// launcher is back.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "daemon/core/node_agent.h"
#include "daemon/supervisor/core/worker_group.h"
#include "tests/sim/worker.h"

namespace train::sim {

enum class Mutant;

class SimSupervisor {
 public:
  SimSupervisor(Timeline& timeline, Checkers& check, const Plan& plan, Mutant mutant, int node,
                const SpawnSupervisor& spawned);

  /// traind is connected, newly or again; the supervisor is side 1.
  void attach(LinkPtr link);
  void on_exit(std::function<void()> what) { on_exit_ = std::move(what); }
  void crash();
  bool alive() const { return alive_; }
  std::vector<std::unique_ptr<SimWorker>>& workers() { return workers_; }

 private:
  struct Seat {
    WorkerPlan plan;
    SimWorker* worker = nullptr;
    std::deque<ReportBatch> reports;                      // not acknowledged
    std::map<std::uint64_t, PartWritten> parts;           // not settled
    std::map<std::uint64_t, CollectiveJoin> collectives;  // not answered
    std::uint64_t last_ordinal = 0;
    int staging = 0;
    bool connected = false;
  };
  void received(const SimFrame& frame);
  void on_prepare(const PrepareAttempt& message);
  void on_start(const StartWorkers& message);
  void from_worker(Rank rank, const SimFrame& frame);
  void part_stored(Rank rank, PartWritten part);
  void spawn(Rank rank);
  void reaped(Rank rank, WaitStatus status);
  void drain_when_over(Rank rank);
  void feed(const GroupEvent& event);
  void perform(const GroupAction& action);
  void arm();
  void send(Payload payload);
  void say(Payload payload);
  void say_everything_again();
  void to_workers(const SimFrame& frame);
  void end();

  Timeline& timeline_;
  Checkers& check_;
  const Plan& plan_;
  Mutant mutant_;
  int node_;
  AttemptKey key_;
  ResourceAmounts claimed_;
  WorkerGroup group_;
  LinkPtr link_;
  std::function<void()> on_exit_;
  std::optional<PrepareAttempt> prepare_;
  std::optional<StartWorkers> start_;
  std::map<Rank, Seat> seats_;
  std::map<Rank, TellExited> exits_;
  std::vector<Payload> lifecycle_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::map<Rank, LinkPtr> worker_links_;
  TimePoint disk_free_;
  TimePoint armed_;
  bool alive_ = true;
};

}  // namespace train::sim
