// The simulated launcher: the real RunController and ReportLedger, and what
// launcher/cluster/run_driver.cc, daemon_link.cc and report_pipeline.cc do around them.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "launcher/core/report_ledger.h"
#include "launcher/core/run_controller.h"
#include "tests/sim/checkers.h"
#include "tests/sim/node.h"

namespace train::sim {

class SimLauncher {
 public:
  SimLauncher(Timeline& timeline, Checkers& check, const Plan& plan, Mutant mutant,
              std::vector<std::unique_ptr<SimNode>>& nodes);

  void start();
  void ask_to_stop(StopKind kind);
  /// The network to a node fails; `silent`: nobody notices but by the silence, until restore().
  void cut(int node, bool silent);
  void restore(int node) { links_[node].reachable = true; }
  bool finished() const { return finished_; }
  const RunController& controller() const { return controller_; }

 private:
  struct DaemonLink {
    LinkPtr link;
    TimePoint last_heard;
    Duration redial = milliseconds(5);
    bool reachable = true, told_down = false;
  };
  // links
  void dial(int node);
  void connected(int node, const LinkPtr& link);
  void lost_link(int node, bool refused);
  void received(int node, const SimFrame& frame);
  void send(NodeId node, Attempt attempt, Payload payload);

  // the controller
  void feed(const RunEvent& event);
  void perform(const RunAction& action);
  void arm();
  Start tampered(Start start) const;
  void start_workers(const Start& start);
  void commit(Commit commit);
  void release(const Release& release);
  void finish();

  // reports
  struct Item {
    Attempt attempt;
    ReportBatch batch;
    std::function<void()> settled;  // instead of a batch
  };
  void add(Item item);
  void write();
  void take(const Item& item);
  void acknowledge(Attempt attempt, Rank rank, std::uint64_t ordinal);
  void when_settled(std::function<void()> what) { add({{}, {}, std::move(what)}); }

  Timeline& timeline_;
  Checkers& check_;
  const Plan& plan_;
  Mutant mutant_;
  std::vector<std::unique_ptr<SimNode>>& nodes_;
  RunController controller_;
  std::vector<DaemonLink> links_;
  std::deque<Item> queue_;
  bool writing_ = false;
  std::map<Attempt, ReportLedger> ledgers_;
  std::map<std::pair<Attempt, Rank>, std::uint64_t> written_;
  std::optional<CheckpointInfo> committed_;
  std::optional<TimePoint> armed_;
  bool condition_met_ = false, ending_ = false, finished_ = false;
  int releases_ = 0;
};

}  // namespace train::sim
