#include "tests/sim/world.h"

namespace train::sim {
namespace {

constexpr Duration kEndsWithin = seconds(
    900);  // virtual, once faults have stopped: a daemon away for 2 min, backoffs, redone steps
constexpr Duration kLeavesWithin =
    seconds(120);  // after the run's end: orphan timeout, grace, daemons that come back
constexpr std::uint64_t kEventsMax = 3'000'000;

class World {
 public:
  explicit World(const SimOptions& options)
      : plan_(make_plan(options.seed, options.nodes)),
        timeline_(options.seed),
        check_(timeline_, plan_) {
    timeline_.print = options.print;
    for (int i = 0; i < plan_.nodes; ++i)
      nodes_.push_back(std::make_unique<SimNode>(timeline_, check_, plan_, options.mutant, i));
    launcher_ = std::make_unique<SimLauncher>(timeline_, check_, plan_, options.mutant, nodes_);
  }

  SimResult run() {
    describe_plan();
    launcher_->start();
    for (const Fault& fault : plan_.faults)
      timeline_.after(fault.at, [this, fault] { inject(fault); });
    for (const StopRequest& stop : plan_.stops)
      timeline_.after(stop.at, [this, stop] { launcher_->ask_to_stop(stop.kind); });
    const TimePoint faults_end = timeline_.now() + plan_.faults_end;
    std::optional<TimePoint> over;
    while (!check_.violation() && timeline_.step()) {
      if (!over && launcher_->finished()) over = std::max(timeline_.now(), faults_end);
      if (over ? timeline_.now() > *over + kLeavesWithin
               : timeline_.now() > faults_end + kEndsWithin)
        break;
      if (over && nobody_left()) break;
      if (timeline_.events() > kEventsMax)
        check_.fail("too many events: something goes round in circles");
    }
    if (!check_.violation()) check_.run_over();
    if (!check_.violation() && !nobody_left()) check_.fail("a supervisor outlives its run");
    return {check_.violation().value_or(""),
            timeline_.tail(),
            timeline_.hash(),
            timeline_.events(),
            launcher_->controller().state(),
            static_cast<int>(launcher_->controller().attempt().value) + 1};
  }

 private:
  void describe_plan() {
    const FailureConfig& failure = plan_.spec.run_config.failure_config;
    const WorkerCount& count = plan_.spec.scaling_config.num_workers;
    timeline_.trace(
        "seed {}: {} nodes of {} CPU, {} to {} workers, {} steps, barrier every {}, checkpoint "
        "every {}, max_failures {}, "
        "max_start_failures {}, orphan timeout {}, stop grace {}",
        plan_.seed, plan_.nodes, plan_.cpus_per_node, count.min, count.max, plan_.habits.steps,
        plan_.habits.barrier_every, plan_.habits.checkpoint_every, failure.max_failures,
        failure.max_start_failures, format_duration(failure.orphan_timeout),
        format_duration(failure.stop_grace));
  }

  bool nobody_left() const {
    if (check_.workers_alive() != 0) return false;
    for (const auto& node : nodes_) {
      for (const auto& supervisor : node->supervisors()) {
        if (supervisor->alive()) return false;
      }
    }
    return true;
  }

  std::vector<SimWorker*> live_workers() {
    std::vector<SimWorker*> workers;
    for (const auto& node : nodes_) {
      for (const auto& supervisor : node->supervisors()) {
        for (const auto& worker : supervisor->workers()) {
          if (worker->alive()) workers.push_back(worker.get());
        }
      }
    }
    return workers;
  }

  void inject(const Fault& fault) {
    SimNode& node = *nodes_[fault.node];
    switch (fault.kind) {
      case FaultKind::CrashWorker:
      case FaultKind::HangWorker: {
        const auto workers = live_workers();
        if (workers.empty()) return;
        SimWorker& worker = *workers[static_cast<std::size_t>(fault.pick) % workers.size()];
        timeline_.trace("fault: worker on node {}, attempt {} rank {} {}", worker.place().node,
                        worker.place().attempt.value, worker.place().rank.value,
                        fault.kind == FaultKind::HangWorker ? "hangs" : "crashes");
        if (fault.kind == FaultKind::HangWorker)
          worker.hang();
        else
          worker.crash(fault.pick);
        return;
      }
      case FaultKind::CrashSupervisor:
        for (const auto& supervisor : node.supervisors()) {
          if (supervisor->alive()) return supervisor->crash();
        }
        return;
      case FaultKind::CrashDaemon:
        if (!node.up()) return;
        node.crash();
        timeline_.after(fault.length, [this, index = fault.node] {
          timeline_.trace("node {} traind is back", index);
          nodes_[index]->restart();
        });
        return;
      case FaultKind::ResetLink:
        timeline_.trace("fault: link to node {} is reset", fault.node);
        return launcher_->cut(fault.node, false);
      case FaultKind::CutNode:
        timeline_.trace("fault: node {} is cut off", fault.node);
        launcher_->cut(fault.node, true);
        timeline_.after(fault.length, [this, index = fault.node] {
          timeline_.trace("node {} is in reach again", index);
          launcher_->restore(index);
        });
        return;
      case FaultKind::StaleLauncher:
        return attach_stale_launcher(fault.node);
    }
  }

  // One that was taken over, and does not know it yet.
  void attach_stale_launcher(int index) {
    if (!nodes_[index]->up()) return;
    timeline_.trace("fault: a launcher of epoch 1 calls node {}", index);
    auto link = std::make_shared<SimLink>(timeline_, milliseconds(1), milliseconds(10));
    link->set_end(0, {});
    nodes_[index]->accept(link);
    AttachRun stale_attach{"run", "run", 1};
    stale_attach.orphan_timeout_ms = std::chrono::duration_cast<milliseconds>(
                                         plan_.spec.run_config.failure_config.orphan_timeout)
                                         .count();
    link->send(0, {{}, stale_attach});
    stale_.push_back(link);
    timeline_.after(seconds(1), [link] { link->close(0); });
  }

  const Plan plan_;
  Timeline timeline_;
  Checkers check_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::unique_ptr<SimLauncher> launcher_;
  std::vector<LinkPtr> stale_;
};

}  // namespace

SimResult simulate(const SimOptions& options) { return World(options).run(); }

std::string SimResult::describe(const SimOptions& options) const {
  return fmt::format(
      "{}\n\ntrain-sim --seed {} --nodes {}{}: {}\n", trace_tail, options.seed, options.nodes,
      options.mutant == Mutant::None ? "" : fmt::format(" --mutant {}", to_string(options.mutant)),
      violation);
}

}  // namespace train::sim
