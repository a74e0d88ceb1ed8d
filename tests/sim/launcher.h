// The simulated launcher: the real RunController and SequenceTracker, surrounded by what
// launcher/cluster/run/run_driver.cc and report_pipeline.cc do.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "launcher/cluster/links/controller_messages.h"
#include "launcher/cluster/links/start_messages.h"
#include "launcher/core/report_pace.h"
#include "launcher/core/run_controller.h"
#include "launcher/core/sequence_tracker.h"
#include "lib/observe/stop_rules.h"
#include "tests/sim/daemon_link.h"
#include "tests/sim/driver.h"
#include "tests/sim/run_folder.h"

namespace train::sim {

class SimLauncher {
 public:
  using Nodes = std::vector<std::unique_ptr<SimNode>>;
  SimLauncher(Sim& sim, Nodes& nodes, SimFolder& folder, std::uint64_t generation);

  void start();
  void die();  // loses what is not on disk
  void ask_to_stop(StopKind kind, const std::string& reason = "asked");
  void ask_checkpoint();
  SimDaemonLink& link(int node) { return *links_[node]; }
  SimDriver& driver() { return driver_; }
  bool finished() const { return finished_; }
  bool alive() const { return !dead_; }
  const RunController& controller() const { return controller_; }

 private:
  void received(int index, const SimFrame& frame);
  template <class... Messages>
  void feed_one_of(const Sender& from, const SimFrame& frame);
  void offered(int node, const NodeOffer& offer, bool attached);
  void send(NodeId node, SimFrame frame) { links_[node.value]->send(std::move(frame)); }

  // the controller
  void feed(const RunEvent& event);
  void perform(const RunAction& action);
  void arm();
  void prepare(const Prepare& what);
  void start_workers(Start start);
  void commit(Commit what);
  void commit_now(const Commit& what);
  void release(const Release& what);
  void write_validation(std::uint64_t number);
  void send_collective(const SendCollective& what);
  void finish();

  // the journal
  void remember(boost::json::object event);
  void write_journal();
  void journal_written(std::size_t records);
  void give_up_commit(const GiveUpCommit& what);
  CheckpointInfo put_checkpoint(const Commit& what);
  void when_journaled(std::function<void()> what);

  // reports
  struct Item {
    Attempt attempt;
    ReportBatch batch;
    std::function<void()> flushed;  // set instead of a batch
  };
  void add(Item item);
  void write_soon();
  void write();
  void take(const Item& item);
  void acknowledge(const ReportPace::Acks& acks);
  void on_driver_gone();
  void when_flushed(std::function<void()> what) { add({{}, {}, std::move(what)}); }
  template <class F>
  void later(Duration delay, F&& what) {
    sim_.after(delay, [this, what = std::forward<F>(what)]() mutable {
      if (!dead_) what();
    });
  }

  Sim& sim_;
  Nodes& nodes_;
  SimFolder& folder_;
  const Generation generation_;
  const bool has_driver_;  // it dies with the first launcher
  RunIdentity run_;
  const RunStart start_;
  RunController controller_;
  StopRules stop_rules_;
  std::vector<std::unique_ptr<SimDaemonLink>> links_;
  std::deque<Item> queue_;
  std::size_t said_again_ = 0;  // resends by supervisors since the queue was empty
  bool writing_ = false;
  std::map<Attempt, SequenceTracker> trackers_;
  ReportPace pace_;
  SimDriver driver_;
  std::map<Attempt, std::vector<int>> origins_;  // node of each rank, for reports
  std::set<NodeId> lost_;                        // at some time
  std::optional<TimePoint> armed_;
  SimFrame last_collective_;
  std::optional<SendRoster> first_roster_;  // that names somebody
  std::uint64_t numbers_skipped_ = 0;
  std::vector<boost::json::object> journal_queue_, journal_group_;  // the group is being written
  std::uint64_t journal_asked_ = 0, journal_written_ = 0;
  std::deque<std::pair<std::uint64_t, std::function<void()>>> journal_waits_;
  int journal_holds_ = 0;
  std::optional<boost::json::object> run_ended_;
  std::shared_ptr<const Commit> committing_;
  std::set<std::pair<Attempt, std::uint64_t>> given_up_;  // commits that will not appear
  std::set<std::uint64_t> validations_;                   // being written
  bool condition_met_ = false, ending_ = false, finished_ = false, dead_ = false;
  int releases_ = 0;
  int checkpoints_asked_ = 0;
};

}  // namespace train::sim
