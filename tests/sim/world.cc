#include "tests/sim/world.h"

#include <memory>

#include "tests/sim/injector.h"

namespace train::sim {
namespace {

constexpr Duration kEndsWithin = seconds(
    900);  // virtual time after the faults have stopped: daemons away, backoffs, redone steps
constexpr Duration kLeavesWithin =
    seconds(120);  // after the run's end: orphan timeout, grace, daemons that come back
constexpr std::uint64_t kEventsPerRank = 500'000, kFullCheckEvery = 20'000;
constexpr std::uint64_t kFirstGeneration = 2;
constexpr int kCalmSeconds = 10;

class World {
 public:
  World(const SimOptions& options, std::uint64_t wall_seed, bool record)
      : sim_(options.plan ? *options.plan
                          : make_plan(options.seed, {options.nodes, options.ranks_per_node,
                                                     options.lasts, wall_seed}),
             options.mutant) {
    sim_.timeline.recording = record;
    sim_.timeline.print = options.print;
    for (int i = 0; i < sim_.plan.nodes; ++i) nodes_.push_back(std::make_unique<SimNode>(sim_, i));
    launcher_ = std::make_unique<SimLauncher>(sim_, nodes_, folder_, generation_);
    injector_ = std::make_unique<Injector>(sim_, nodes_, launcher_);
  }

  SimResult run() {
    sim_.kill_launcher = [this](Duration away) { kill_launcher(away); };
    describe_plan();
    launcher_->start();
    injector_->schedule();
    if (sim_.plan.has_ingest()) watch_ingest();
    for (const StopRequest& stop : sim_.plan.stops)
      sim_.after(stop.at, [this, stop] { ask_to_stop(stop.kind); });
    for (const Duration at : sim_.plan.checkpoint_requests)
      sim_.after(at, [this] { launcher_->ask_checkpoint(); });
    run_events();
    if (!sim_.check.violation()) sim_.check.run_over();
    return {.violation = sim_.check.violation().value_or(""),
            .trace_tail = sim_.timeline.tail(),
            .trace_hash = sim_.timeline.hash(),
            .events = sim_.timeline.events(),
            .outcome = launcher_->controller().state(),
            .attempts = static_cast<int>(launcher_->controller().attempt().value) + 1,
            .nodes = sim_.plan.nodes,
            .world_size = launcher_->controller().world_size(),
            .from_standby = launcher_->controller().from_standby(),
            .groups_that_hung = sim_.check.groups_that_hung(),
            .rosters_compared = sim_.check.rosters_compared(),
            .virtual_time = sim_.timeline.now().time_since_epoch() - seconds(1),
            .sites_fired = sim_.fired};
  }

 private:
  void ask_to_stop(StopKind kind) {
    last_stop_ = kind;
    launcher_->ask_to_stop(kind);
  }

  void kill_launcher(Duration away) {
    if (launcher_->finished() || !launcher_->alive()) return;
    launcher_->die();
    sim_.after(away, [this] {
      dead_.push_back(std::move(launcher_));  // its pending events find that it is dead
      if (sim_.mutant != Mutant::GenerationNotRaised) ++generation_;
      sim_.timeline.trace("a launcher of generation {} resumes the run", generation_);
      launcher_ = std::make_unique<SimLauncher>(sim_, nodes_, folder_, generation_);
      launcher_->start();
      // Whoever asked the last launcher to stop may ask again; after a HangWorker fault it must.
      if (last_stop_ && ((sim_.plan.has(FaultKind::HangWorker) && !sim_.plan.judges_hangs()) ||
                         sim_.timeline.random.chance(0.5)))
        sim_.after(sim_.between(Duration{0}, seconds(3)), [this] { ask_to_stop(*last_stop_); });
    });
  }

  /// Compare rosters when the attempt has run undisturbed, with all nodes in reach and as many
  /// ingest workers, for a while.
  void watch_ingest() {
    sim_.after(seconds(1), [this] {
      if (launcher_->finished()) return;
      const RunController& controller = launcher_->controller();
      bool calm = launcher_->alive() && controller.state() == RunState::Running &&
                  !sim_.faults_go_on() && controller.attempt() == calm_attempt_ &&
                  controller.ingest_wanted() == calm_wanted_;
      for (int node = 0; node < sim_.plan.nodes && calm; ++node)
        calm = nodes_[node]->up() && launcher_->link(node).attached() &&
               nodes_[node]->host().healthy_since.has_value();
      calm_attempt_ = controller.attempt();
      calm_wanted_ = controller.ingest_wanted();
      calm_for_ = calm ? calm_for_ + 1 : 0;
      if (calm_for_ > kCalmSeconds)
        sim_.check.compare_rosters(controller.attempt(), controller.ingest_wanted());
      watch_ingest();
    });
  }

  void run_events() {
    const Checkers& check = sim_.check;
    const TimePoint faults_end = sim_.timeline.now() + sim_.plan.faults_end;
    TimePoint give_up = faults_end + kEndsWithin;
    for (const StopRequest& stop : sim_.plan.stops)
      give_up = std::max(give_up, TimePoint(seconds(1)) + stop.at + kEndsWithin);
    const std::uint64_t events_max =
        kEventsPerRank *
        static_cast<std::uint64_t>(sim_.plan.nodes + sim_.plan.spec.scaling_config.num_workers.max);
    std::optional<TimePoint> over;
    std::uint64_t until_full_check = kFullCheckEvery;
    while (!check.violation() && sim_.timeline.step()) {
      sim_.check.after_event();
      if (!over && launcher_->finished()) {
        over = std::max(sim_.timeline.now(), faults_end);
        give_up = *over + kLeavesWithin;
      }
      if (sim_.timeline.now() > give_up || (over && check.nobody_left())) break;
      if (--until_full_check == 0) {
        // A full check costs as much as a few events for each rank.
        until_full_check =
            kFullCheckEvery +
            16 * static_cast<std::uint64_t>(sim_.plan.spec.scaling_config.num_workers.max);
        sim_.check.full_check();
      }
      if (sim_.timeline.events() > events_max)
        sim_.check.fail("L1", "too many events: something goes round in circles");
    }
  }

  void describe_plan() {
    const Plan& plan = sim_.plan;
    const FailureConfig& failure = plan.spec.run_config.failure_config;
    const WorkerCount& count = plan.spec.scaling_config.num_workers;
    sim_.timeline.trace(
        "seed {}: {} nodes of {} CPU, {} to {} workers, {} steps, barrier every {}, checkpoint "
        "every {}, max_failures {}, max_start_failures {}, orphan timeout {}, stop grace {}",
        plan.seed, plan.nodes, plan.cpus_per_node, count.min, count.max, plan.habits.steps,
        plan.habits.barrier_every, plan.habits.checkpoint_every, failure.max_failures,
        failure.max_start_failures, format_duration(failure.orphan_timeout),
        format_duration(failure.stop_grace));
  }

  Sim sim_;
  SimLauncher::Nodes nodes_;
  SimFolder folder_;
  std::uint64_t generation_ = kFirstGeneration;
  std::vector<std::unique_ptr<SimLauncher>> dead_;
  std::optional<StopKind> last_stop_;
  Attempt calm_attempt_;
  int calm_wanted_ = 0, calm_for_ = 0;  // ingest workers; seconds
  std::unique_ptr<SimLauncher> launcher_;
  std::unique_ptr<Injector> injector_;
};

}  // namespace

// Record a trace from the start only if somebody watches the run. A run that went wrong is run
// again for its trace.
SimResult simulate(const SimOptions& options) {
  SimResult result = World(options, options.seed, options.print).run();
  if (options.wall_clocks && result.violation.empty()) {
    // S14: no decision depends on a wall clock: with other ones everything happens as before.
    const SimResult other = World(options, options.seed + 0x5eed, false).run();
    if (other.trace_hash != result.trace_hash)
      result.violation = "S14: the same seed goes another way under other wall clocks";
    return result;
  }
  if (!result.violation.empty() && !options.print)
    result.trace_tail = World(options, options.seed, true).run().trace_tail;
  return result;
}

std::string SimResult::describe(const SimOptions& options) const {
  return fmt::format(
      "{}\n\ntrain-sim --seed {} --nodes {}{}: {}\n", trace_tail, options.seed, options.nodes,
      options.mutant == Mutant::None ? "" : fmt::format(" --mutant {}", to_string(options.mutant)),
      violation);
}

}  // namespace train::sim
