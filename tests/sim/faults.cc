#include "tests/sim/faults.h"

#include <algorithm>

#include "launcher/core/hang_controller.h"

namespace train::sim {
namespace {

constexpr Duration kDay = std::chrono::hours(24);

void choose_spec(Plan& plan, Random& random) {
  JobSpec& spec = plan.spec;
  spec.command = {"./train"};
  const int capacity = plan.nodes * static_cast<int>(plan.cpus_per_node);
  const int wanted = random.between(1, std::min(capacity, 2 * plan.nodes + 2));
  spec.scaling_config.num_workers = {random.chance(0.3) ? std::max(1, wanted / 2) : wanted, wanted};
  spec.scaling_config.placement_strategy =
      random.chance(0.5) ? PlacementStrategy::Pack : PlacementStrategy::Spread;
  FailureConfig& failure = spec.run_config.failure_config;
  failure.max_failures = random.chance(0.2) ? kUnlimited : random.between(0, 4);
  failure.max_start_failures = random.between(0, 3);
  failure.stop_grace = seconds(random.between(2, 10));
  failure.orphan_timeout = seconds(random.between(15, 40));
  failure.backoff = {milliseconds(200), seconds(4)};
  if (random.chance(0.1)) {
    failure.node_suspect_after = milliseconds(900);
    failure.node_dead_after = seconds(3);
  }
  if (random.chance(0.2))
    spec.run_config.stop = {{"epoch", static_cast<double>(random.between(2, 8))}};
}

// Give a sixth of the runs other roles. In half of them, their workers claim nothing, so that they
// are beside the ranks. The seeds of all other runs choose what they chose before there were roles.
void choose_roles(Plan& plan) {
  Random random(plan.seed ^ 0x726f6c6573ULL);
  if (!random.chance(1.0 / 6)) return;
  ScalingConfig& scaling = plan.spec.scaling_config;
  scaling.role = "trainer";
  const double cpu = random.chance(0.5) ? 0 : 1;
  for (const char* name : {"reader", "evaluator"}) {
    if (!random.chance(0.7)) continue;
    scaling.other_roles.push_back({.name = name,
                                   .command = {"./other"},
                                   .workers = random.between(1, plan.nodes + 1),
                                   .resources_per_worker = {.cpu = cpu, .custom = {}}});
  }
  if (cpu > 0 && random.chance(0.7)) {  // else there is room only for some of the plans
    WorkerCount& count = scaling.num_workers;
    count.max = std::max(1, count.max / 2);
    count.min = std::min(count.min, count.max);
  }
  plan.habits.others_end = random.chance(0.3);
}

void choose_habits(Plan& plan, Random& random) {
  Habits& habits = plan.habits;
  habits.has_sdk = random.chance(0.9);
  habits.steps = random.between(1, 12);
  habits.step_min = milliseconds(random.between(1, 100));
  habits.step_max = habits.step_min + milliseconds(random.between(0, 800));
  habits.checkpoint_every = random.between(0, 3);
  habits.barrier_every = random.chance(0.5) ? 1 : random.between(0, 3);
  habits.stop_checkpoint = random.chance(0.5);
  habits.traps_term = random.chance(0.3) ? 0.5 : 0;
  habits.slow_to_term = random.chance(0.3) ? 0.3 : 0;
  if (random.chance(0.3)) plan.commit_fails = 0.3;
  if (random.chance(0.3)) plan.spawn_fails = 0.1;
  if (random.chance(0.2)) plan.shard_fails = 0.1;
  plan.command_missing = random.chance(0.02);
  if (random.chance(0.2)) plan.report_window = 1;
  for (int site = 0; site < kSites; ++site) plan.armed |= random.chance(0.25) ? 1u << site : 0u;
}

// Put half of the runs in one rack, a third in one building, and the rest across continents.
void choose_links(Plan& plan, Random& random) {
  const double where = static_cast<double>(random.below(100)) / 100;
  const int slowest_ms = where < 0.5 ? 2 : where < 0.8 ? 20 : random.between(50, 500);
  const double loss = random.chance(0.2) ? 0.01 * random.between(1, 30) : 0;
  for (int node = 0; node < plan.nodes; ++node) {
    LinkHabits link;
    link.delay_max = std::chrono::microseconds(random.between(100, slowest_ms * 1000));
    link.delay_min = std::max<Duration>(std::chrono::microseconds(100), link.delay_max / 4);
    link.loss = loss;
    plan.links.push_back(link);
  }
}

FaultKind choose_kind(Random& random, bool only_workers) {
  if (only_workers) return random.chance(0.2) ? FaultKind::OomWorker : FaultKind::CrashWorker;
  static constexpr FaultKind kKinds[] = {
      FaultKind::CrashWorker, FaultKind::CrashWorker,   FaultKind::CrashWorker,
      FaultKind::OomWorker,   FaultKind::SlowNode,      FaultKind::CrashSupervisor,
      FaultKind::CrashDaemon, FaultKind::CrashDaemon,   FaultKind::PowerLoss,
      FaultKind::ResetLink,   FaultKind::ResetLink,     FaultKind::ResetLink,
      FaultKind::ForgetLink,  FaultKind::Partition,     FaultKind::Partition,
      FaultKind::PartitionUp, FaultKind::PartitionDown, FaultKind::Clog,
      FaultKind::SayAgain,    FaultKind::StaleLauncher, FaultKind::DiskFull,
      FaultKind::DiskSlow};
  return kKinds[random.below(std::size(kKinds))];
}

Duration length_of(FaultKind kind, Random& random) {
  if (kind == FaultKind::Clog) return milliseconds(random.between(1, 5000));
  return milliseconds(random.chance(0.3) ? random.between(8000, 60000) : random.between(1, 8000));
}

// Stall links one after the other and restart them, in two random orders.
void add_swizzle(Plan& plan, Random& random) {
  const Duration begin = milliseconds(random.between(0, 4000));
  for (int node = 0; node < plan.nodes; ++node) {
    if (!random.chance(0.5)) continue;
    const Duration at = begin + milliseconds(random.between(0, 2000));
    const Duration until = begin + milliseconds(random.between(2000, 5000));
    const int pick = static_cast<int>(random.below(3));
    plan.faults.push_back({at, FaultKind::Clog, node, pick, until - at});
  }
}

void choose_stops(Plan& plan, Random& random) {
  static constexpr StopKind kStops[] = {StopKind::Interrupt, StopKind::Terminate,
                                        StopKind::Command};
  if (random.chance(0.3)) {
    plan.stops.push_back({milliseconds(random.between(0, 8000)), kStops[random.below(3)]});
    if (random.chance(0.3))
      plan.stops.push_back(
          {plan.stops[0].at + milliseconds(random.between(1, 3000)), kStops[random.below(3)]});
  }
  if (random.chance(0.1)) {  // only a stop request ends a run that hangs
    plan.faults.push_back({.at = milliseconds(random.between(0, 3000)),
                           .kind = FaultKind::HangWorker,
                           .node = 0,
                           .pick = static_cast<int>(random.below(1u << 20)),
                           .length = {}});
    plan.stops.push_back({seconds(6), StopKind::Interrupt});
  }
}

void choose_faults(Plan& plan, Random& random) {
  const bool only_workers = random.chance(0.3);
  const int count = random.chance(0.15) ? 0 : random.between(1, 8);
  const int spread_ms = random.chance(0.5) ? 4000 : 20000;
  for (int i = 0; i < count; ++i) {
    const FaultKind kind = choose_kind(random, only_workers);
    plan.faults.push_back({.at = milliseconds(random.between(0, spread_ms)),
                           .kind = kind,
                           .node = random.between(0, plan.nodes - 1),
                           .pick = static_cast<int>(random.below(1u << 20)),
                           .length = length_of(kind, random)});
  }
  if (!only_workers && count > 0 && random.chance(0.1)) add_swizzle(plan, random);
  choose_stops(plan, random);
}

// In every tenth seed, break links many times while workers report fast.
void add_storm(Plan& plan, Random& random) {
  plan.habits.steps = std::max(20, 400 / plan.nodes);
  plan.habits.step_min = milliseconds(1);
  plan.habits.step_max = milliseconds(4);
  plan.habits.checkpoint_every = 20;
  for (int i = 0; i < 30; ++i) {
    plan.faults.push_back({.at = milliseconds(random.between(50, 2000)),
                           .kind = FaultKind::ResetLink,
                           .node = random.between(0, plan.nodes - 1),
                           .pick = 0,
                           .length = {}});
  }
}

// In one seed of five, the launcher dies and another one comes, perhaps after the orphan timeout.
void add_launcher_deaths(Plan& plan) {
  Random random(plan.seed * 6151 + 29);  // own generator: the rest of the plan does not change
  if (!random.chance(0.2)) return;
  plan.dies_at_end = random.chance(0.3);
  const int deaths = random.between(1, 3);
  for (int i = 0; i < deaths; ++i) {
    plan.faults.push_back({.at = milliseconds(random.between(0, 12000)),
                           .kind = FaultKind::KillLauncher,
                           .node = 0,
                           .pick = 0,
                           .length = length_of(FaultKind::KillLauncher, random)});
  }
}

// In one seed of four, drain nodes, with more grace or less.
void add_drains(Plan& plan) {
  Random random(plan.seed * 4261 + 67);  // own generator, as above
  if (!random.chance(0.25)) return;
  const int drains = random.between(1, 2);
  for (int i = 0; i < drains; ++i) {
    plan.faults.push_back({.at = milliseconds(random.between(0, 8000)),
                           .kind = FaultKind::DrainNode,
                           .node = random.between(0, plan.nodes - 1),
                           .pick = random.between(0, 10000),  // milliseconds of grace
                           .length = milliseconds(random.between(500, 40000))});
  }
}

// In one seed of twenty, only this happens: a node is drained shortly after the training began, and
// no order reaches another one, whose ranks may come to their own end meanwhile.
void add_mute_drain(Plan& plan) {
  Random random(plan.seed * 5527 + 83);  // own generator, as above
  if (plan.nodes < 2 || !random.chance(0.05)) return;
  Habits& habits = plan.habits;
  habits.steps = random.between(8, 14);
  habits.step_min = milliseconds(random.between(150, 400));
  habits.step_max = habits.step_min + milliseconds(random.between(0, 200));
  habits.barrier_every = 0;
  habits.stop_checkpoint = true;
  plan.spec.run_config.stop.clear();
  plan.spec.scaling_config.placement_strategy = PlacementStrategy::Spread;
  plan.stops.clear();
  const int drained = random.between(0, plan.nodes - 1);
  const Duration at = milliseconds(random.between(500, 2500));
  plan.faults = {{.at = at,
                  .kind = FaultKind::PartitionDown,
                  .node = (drained + 1) % plan.nodes,
                  .pick = 0,
                  .length = milliseconds(random.between(2000, 10000))},
                 {.at = at + milliseconds(random.between(0, 1000)),
                  .kind = FaultKind::DrainNode,
                  .node = drained,
                  .pick = random.between(5000, 20000),
                  .length = milliseconds(random.between(500, 40000))}};
}

// In one seed of eight, other runs take room, half of them as this run takes it, too.
void add_rivals(Plan& plan) {
  Random random(plan.seed * 7333 + 19);  // own generator, as above
  if (!random.chance(0.2)) return;
  const int rivals = random.between(1, 5);
  for (int i = 0; i < rivals; ++i) {
    plan.faults.push_back({.at = milliseconds(random.between(0, random.chance(0.5) ? 100 : 6000)),
                           .kind = FaultKind::RivalRun,
                           .node = random.between(0, plan.nodes - 1),
                           .pick = random.between(1, 6),  // CPUs
                           .length = milliseconds(random.between(500, 8000))});
  }
}

// In one seed of sixteen, ranks that need not wait for each other leave as soon as they may.
void add_early_leaves(Plan& plan) {
  Random random(plan.seed * 9001 + 31);  // own generator, as above
  plan.habits.asks_should_stop = plan.habits.barrier_every == 0 && random.chance(0.5);
}

// In one seed of three, somebody asks for checkpoints, up to four times.
void add_checkpoint_requests(Plan& plan) {
  Random random(plan.seed * 6007 + 71);  // own generator, as above
  if (!random.chance(0.33)) return;
  const Duration lasts = plan.habits.step_max * plan.habits.steps + seconds(1);
  for (int i = random.between(1, 4); i > 0; --i)
    plan.checkpoint_requests.push_back(random.between(Duration{0}, 2 * lasts));
  plan.habits.asks_checkpoint_requested = random.chance(0.5);
}

// In one seed of three, start standbys: sometimes too few, sometimes too many.
void add_standbys(Plan& plan) {
  Random random(plan.seed * 3571 + 41);  // own generator, as above
  if (!random.chance(0.33)) return;
  ScalingConfig& scaling = plan.spec.scaling_config;
  scaling.standby_workers = random.between(1, scaling.num_workers.max + 2);
}

// In one seed of four, validate checkpoints.
void add_validations(Plan& plan) {
  Random random(plan.seed * 2741 + 53);  // own generator, as above
  if (!random.chance(0.25)) return;
  plan.spec.run_config.checkpoint_config.validation.every = random.between(1, 3);
}

// In one seed of five, judge hangs: workers hang, are stopped, or are slow, within their limits and
// beyond. In half of these seeds nothing else happens.
void add_hangs(Plan& plan) {
  Random random(plan.seed * 6581 + 97);  // own generator, as above
  if (!random.chance(0.2)) return;
  FailureConfig& failure = plan.spec.run_config.failure_config;
  failure.hang_timeout = seconds(random.between(12, 30));
  if (random.chance(0.4))
    failure.phase_timeouts["step"] = failure.hang_timeout * random.between(2, 8) / 2;
  const int steps = random.between(8, 24);
  plan.habits.steps = std::max(plan.habits.steps, steps);
  if (random.chance(0.7)) plan.stops.clear();
  if (random.chance(0.5)) {
    plan.faults.clear();
    plan.dies_at_end = false;
    for (LinkHabits& link : plan.links) link.loss = 0;
  }
  static constexpr FaultKind kKinds[] = {FaultKind::HangWorker, FaultKind::HangWorker,
                                         FaultKind::StopWorker, FaultKind::SlowWorker,
                                         FaultKind::SlowWorker, FaultKind::WedgeWorker};
  const int count = random.between(0, 3);
  for (int i = 0; i < count; ++i) {
    const Duration limit = plan.hang_limit(random.chance(0.5) ? Phase::Step : Phase::None);
    const FaultKind kind = kKinds[random.below(std::size(kKinds))];
    plan.faults.push_back({.at = milliseconds(random.between(0, 6000)),
                           .kind = kind,
                           .node = random.between(0, plan.nodes - 1),
                           .pick = static_cast<int>(random.below(1u << 20)),
                           .length = limit * random.between(2, random.chance(0.7) ? 9 : 30) / 10});
    if (kind == FaultKind::WedgeWorker) plan.faults.back().length = seconds(random.between(5, 60));
  }
}

// Where a stop condition will be met, leave workers that nobody stops much to do (L2).
void go_on_after_the_condition(Plan& plan) {
  for (const StopCondition& stop : plan.spec.run_config.stop) {
    if (plan.habits.steps > stop.at_least) plan.habits.steps += 60;
  }
}

void end_faults(Plan& plan) {
  plan.faults_end = seconds(10);
  for (const Fault& fault : plan.faults)
    plan.faults_end = std::max(plan.faults_end, fault.at + fault.length);
}

// Give runs of a thousand nodes and more many ranks and few steps.
void make_large(Plan& plan, Random& random, int ranks_per_node) {
  plan.cpus_per_node = ranks_per_node;
  const int ranks = plan.nodes * ranks_per_node;
  plan.spec.scaling_config.num_workers = {random.chance(0.5) ? ranks / 2 : ranks, ranks};
  plan.habits.steps = random.between(1, 4);
  plan.habits.step_max = plan.habits.step_min + milliseconds(random.between(100, 2000));
  plan.spawn_fails /= 100;
  plan.shard_fails /= 100;
  FailureConfig& failure = plan.spec.run_config.failure_config;
  if (failure.max_failures == kUnlimited) failure.max_failures = 4;
}

void make_lasting(Plan& plan, Duration lasts) {
  plan.habits = {.has_sdk = true,
                 .steps = 1 << 30,
                 .step_min = seconds(5),
                 .step_max = seconds(15),
                 .checkpoint_every = 20};
  plan.command_missing = false;
  plan.spawn_fails = plan.shard_fails = 0;
  plan.spec.run_config.stop.clear();
  plan.spec.run_config.failure_config.max_failures = kUnlimited;
  plan.spec.run_config.failure_config.max_start_failures = kUnlimited;
  plan.spec.run_config.failure_config.stop_grace = seconds(30);
  plan.stops = {{lasts, StopKind::Command}};
  std::erase_if(plan.faults, [](const Fault& f) { return f.kind == FaultKind::HangWorker; });
}

}  // namespace

namespace {

// In one seed of five, ingest workers serve the ranks. They die now and then, beside what else the
// plan has in store, and their number changes. Such a run takes longer than others.
void add_ingest(Plan& plan) {
  Random random(plan.seed * 3931 + 41);  // own generator, as above
  if (plan.judges_hangs() || !plan.habits.has_sdk || !random.chance(0.2)) return;
  IngestSpec& ingest = plan.spec.datasets["train"].ingest;
  ingest.resources_per_worker.cpu = 0;  // they fit anywhere
  ingest.workers.min = random.between(1, 3);
  ingest.workers.max = ingest.workers.min + random.between(0, 3);
  plan.ingest_busy_for = seconds(random.between(0, 40));
  Habits& habits = plan.habits;
  habits.step_min = std::max<Duration>(habits.step_min, milliseconds(random.between(300, 900)));
  habits.step_max = std::max(habits.step_max, habits.step_min);
  habits.steps = std::max(habits.steps, random.between(20, 90));
  const int deaths = random.between(0, 12);
  for (int i = 0; i < deaths; ++i)
    plan.faults.push_back({.at = milliseconds(random.between(0, 15000)),
                           .kind = FaultKind::KillIngest,
                           .node = random.between(0, plan.nodes - 1),
                           .pick = static_cast<int>(random.below(1u << 20)),
                           .length = {}});
  // In half of them also on nodes without ranks.
  if (random.chance(0.5)) ingest.nodes = {std::string(kAnyNode)};
}

// In one seed of five, a driver has started the launcher. It stalls or dies, and in most of these
// seeds, ranks wait for it.
void add_driver(Plan& plan) {
  Random random(plan.seed * 5011 + 89);  // own generator, as above
  if (!plan.habits.has_sdk || !random.chance(0.2)) return;
  DriverHabits& driver = plan.driver;
  driver.pace = random.chance(0.8) ? random.between(1, 4) : 0;
  driver.round_max = milliseconds(random.between(0, plan.habits.steps > 30 ? 20 : 300));
  driver.leaves = random.chance(0.5);
  if (driver.pace != 0) plan.report_window = 64;  // as the SDK's, room for more than any pace
  for (int stalls = random.between(0, 2); stalls > 0; --stalls)
    plan.faults.push_back({.at = milliseconds(random.between(0, 8000)),
                           .kind = FaultKind::StallDriver,
                           .node = 0,
                           .pick = 0,
                           .length = milliseconds(random.between(100, 15000))});
  if (random.chance(0.4))
    plan.faults.push_back({.at = milliseconds(random.between(0, 8000)),
                           .kind = FaultKind::KillDriver,
                           .node = 0,
                           .pick = 0,
                           .length = {}});
}

}  // namespace

std::string_view to_string(Site site) {
  static constexpr std::string_view kNames[] = {
      "ReportsPoured",   "SyncSlow",    "ReapedLate",    "HelloLate",
      "AdoptedLate",     "SpawnedLate", "LeftoversLate", "OutputKeptOpen",
      "StoredOutOfTurn", "CommitSlow",  "StartSlow"};
  return kNames[static_cast<int>(site)];
}

bool Plan::only_worker_faults() const {
  return std::all_of(faults.begin(), faults.end(), [](const Fault& f) {
    return f.kind == FaultKind::CrashWorker || f.kind == FaultKind::OomWorker ||
           f.kind == FaultKind::HangWorker || f.kind == FaultKind::StopWorker ||
           f.kind == FaultKind::SlowWorker || f.kind == FaultKind::WedgeWorker ||
           f.kind == FaultKind::KillIngest || f.kind == FaultKind::StallDriver ||
           f.kind == FaultKind::KillDriver;
  });
}

bool Plan::has(FaultKind kind) const {
  return std::any_of(faults.begin(), faults.end(),
                     [kind](const Fault& fault) { return fault.kind == kind; });
}

Duration Plan::hang_limit(Phase phase) const {
  const FailureConfig& failure = spec.run_config.failure_config;
  const auto given = failure.phase_timeouts.find(std::string(to_string(phase)));
  return given == failure.phase_timeouts.end() ? failure.hang_timeout : given->second;
}

Duration Plan::hang_known_within() const {
  const Duration limit = std::max(hang_limit(Phase::Step), 2 * hang_limit(Phase::None));
  return limit + kSampleAgeMax + kStacksWait + seconds(8);
}

bool Plan::healthy_link(int node) const {
  return links[node].loss <= 0.1 && links[node].delay_max <= milliseconds(250);
}

std::int64_t Plan::wall_us(int node, TimePoint now) const {
  Random random(wall_seed * 31 + static_cast<std::uint64_t>(node));
  using std::chrono::microseconds;
  const auto us = [](Duration d) { return std::chrono::duration_cast<microseconds>(d).count(); };
  const Duration since = now.time_since_epoch();
  std::int64_t wall = 1'800'000'000'000'000 + us(since) + us(random.between(-kDay, kDay));
  wall += static_cast<std::int64_t>(static_cast<double>(us(since)) * 1e-6 *
                                    random.between(-500, 500));  // drift, ppm
  for (int jump = 0; jump < 3; ++jump) {
    const Duration at = milliseconds(random.between(0, 30000)), by = random.between(-kDay, kDay);
    if (since >= at) wall += us(by);
  }
  return wall;
}

int swarm_nodes(std::uint64_t seed) {
  Random random(seed * 104729 + 3);
  const std::uint64_t size = random.below(100);
  if (size == 0) return 4096;
  if (size <= 9) return 1024;
  return random.chance(0.5) ? random.between(1, 6) : random.between(1, 64);
}

Plan make_plan(std::uint64_t seed, const PlanShape& shape) {
  Random random(seed * 7919 + 17);
  Plan plan;
  plan.seed = seed;
  plan.wall_seed = shape.wall_seed;
  plan.nodes = shape.nodes > 0 ? shape.nodes : swarm_nodes(seed);
  plan.cpus_per_node = random.between(2, 6);
  choose_spec(plan, random);
  choose_habits(plan, random);
  choose_roles(plan);
  choose_links(plan, random);
  choose_faults(plan, random);
  const bool large = plan.nodes >= 1000;
  if (large || shape.ranks_per_node > 0) {
    const int by_size = plan.nodes >= 4000 ? 8 : 2;
    make_large(plan, random, shape.ranks_per_node > 0 ? shape.ranks_per_node : by_size);
  }
  if (!large && seed % 10 == 7) add_storm(plan, random);
  if (shape.lasts > Duration{0}) make_lasting(plan, shape.lasts);
  add_launcher_deaths(plan);
  add_drains(plan);
  add_mute_drain(plan);
  add_rivals(plan);
  add_early_leaves(plan);
  add_checkpoint_requests(plan);
  add_standbys(plan);
  add_validations(plan);
  if (!large && shape.lasts == Duration{0}) add_hangs(plan);
  if (!large && shape.lasts == Duration{0} && seed % 10 != 7) add_ingest(plan);
  if (!large) go_on_after_the_condition(plan);
  if (shape.lasts == Duration{0}) add_driver(plan);
  end_faults(plan);
  return plan;
}

}  // namespace train::sim
