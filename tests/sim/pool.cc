#include "tests/sim/pool.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "launcher/cluster/links/start_messages.h"
#include "launcher/core/placed_ranks.h"
#include "lib/base/overloaded.h"

namespace train::sim {
namespace {

constexpr Duration kDelayMin = std::chrono::microseconds(50), kDelayMax = milliseconds(20);
/// The time in which all nodes have heard what a run wants.
constexpr Duration kHeard = milliseconds(100);
constexpr double kSlack = 1e-6;

JobSpec spec_of(const PoolRunPlan& plan) {
  JobSpec spec;
  spec.scaling_config.num_workers = {plan.workers, std::max(plan.workers, plan.workers_max)};
  spec.scaling_config.resources_per_worker.cpu = plan.cpus;
  spec.scaling_config.placement_strategy = plan.strategy;
  spec.run_config.failure_config.max_failures = plan.failures;
  spec.run_config.priority = plan.priority;
  return spec;
}

}  // namespace

struct Pool::Supervisor {
  double cpus = 0;
  std::set<Rank> living;
  bool up = false;  // it has said hello: before, no order reaches it
  bool released = false;
};

struct Pool::Node {
  NodeId id;
  double cpus = 0;
  NodeAgent agent;
  std::map<AttemptKey, Supervisor> supervisors;  // until nothing of them is left

  double held_by(const std::string& run) const {
    double held = 0;
    for (const auto& [key, supervisor] : supervisors)
      if (key.run_id == run) held += supervisor.cpus;
    return held;
  }
  double free() const {
    double left = cpus;
    for (const auto& [key, supervisor] : supervisors) left -= supervisor.cpus;
    return left;
  }
};

struct Pool::Run {
  int number = 0;
  std::string id;
  LinkId link = 0;
  PoolRunPlan plan;
  std::unique_ptr<RunController> controller;
  std::map<NodeId, TimePoint> to_nodes, to_here;  // when the newest message arrives
  std::set<NodeId> attached;
  std::map<NodeId, KeepRoom> wants;
  std::map<NodeId, TimePoint> wants_since;
  std::optional<TimePoint> armed, began;
  int attempts = 0;
  bool over = false;

  bool waits_at(NodeId node) const {
    const auto want = wants.find(node);
    return want != wants.end() && want->second.workers > 0 && !want->second.place.placed;
  }
};

Pool::Pool(PoolPlan plan) : plan_(std::move(plan)), timeline_(plan_.seed) {
  timeline_.print = timeline_.recording = plan_.prints;
  for (int i = 0; i < plan_.nodes; ++i) {
    const std::string name = fmt::format("n{}", i);
    nodes_.push_back(std::make_unique<Node>(Node{
        NodeId{i}, plan_.cpus, NodeAgent(name, name, {}, {.cpu = plan_.cpus, .custom = {}}), {}}));
  }
  for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
    auto run = std::make_unique<Run>();
    run->number = static_cast<int>(i);
    run->id = fmt::format("run-{:03}", i);
    run->link = i + 1;
    run->plan = plan_.runs[i];
    runs_.push_back(std::move(run));
    timeline_.after(plan_.runs[i].at, [this, i] { start(static_cast<int>(i)); });
  }
}

Pool::~Pool() = default;

void Pool::run() {
  const TimePoint end = started() + std::chrono::hours(24);
  while (violation_.empty() && timeline_.now() < end && timeline_.step()) {
  }
  for (const auto& run : runs_)
    if (!run->over) fail(fmt::format("{} has not ended", run->id));
}

TimePoint Pool::began(int run) const { return runs_.at(run)->began.value_or(TimePoint::max()); }

void Pool::fail(std::string what) {
  if (!violation_.empty()) return;
  violation_ = fmt::format("seed {}, after {}: {}", plan_.seed,
                           format_duration(timeline_.now() - started()), what);
}

// ---- launchers

void Pool::start(int number) {
  Run& run = *runs_[number];
  RunStart start{.checkpoint = {}};
  if (run.plan.nodes.empty())
    for (const auto& node : nodes_) run.plan.nodes.push_back(node->id.value);
  start.expected_nodes = run.plan.nodes.size();
  start.run_id = run.id;
  start.asked_ms =
      std::chrono::duration_cast<milliseconds>(timeline_.now().time_since_epoch()).count();
  run.controller = std::make_unique<RunController>(spec_of(run.plan), start, timeline_.now());
  for (const int node : run.plan.nodes) {
    to_node(run, NodeId{node}, [this, &run](Node& at) {
      AttachRun attach{run.id, run.id, 1};
      attach.submitter = run.plan.owner;
      feed(at, LauncherAttached{run.link, attach});
    });
  }
  arm(run);
}

void Pool::feed(Run& run, const RunEvent& event) {
  if (run.over) return;
  for (const RunAction& action : run.controller->handle(event, timeline_.now())) {
    perform(run, action);
  }
  if (!run.over) arm(run);
}

void Pool::arm(Run& run) {
  const auto deadline = run.controller->next_deadline();
  if (!deadline || run.armed == deadline) return;
  run.armed = deadline;
  timeline_.after(std::max<Duration>(milliseconds(1), *deadline - timeline_.now()),
                  [this, &run, at = *deadline] {
                    if (run.over || run.armed != at) return;
                    run.armed.reset();
                    feed(run, Tick{});
                  });
}

void Pool::perform(Run& run, const RunAction& action) {
  std::visit(
      Overloaded{[&](const Prepare& what) {
                   timeline_.trace("{} prepares n{}", run.id, what.placed.node.value);
                   prepare(run, what);
                 },
                 [&](const KeepRoom& keep) {
                   timeline_.trace("{} wants n{} to keep room for {}{}", run.id, keep.node.value,
                                   keep.workers_here, keep.place.placed ? ": it has it" : "");
                   if (run.wants[keep.node] != keep) run.wants_since[keep.node] = timeline_.now();
                   run.wants[keep.node] = keep;
                   if (plan_.keeps_no_room) return;
                   to_node(run, keep.node, [this, &run, keep](Node& node) {
                     feed(node, RoomClaimed{run.link, claim_message(spec_of(run.plan), keep)});
                   });
                 },
                 [&](const Start& what) {
                   to_node(run, what.placed.node, [this, &run, what](Node& node) {
                     start_workers(node, {run.id, what.attempt}, what);
                   });
                 },
                 [&](const StopGroup& stop) {
                   timeline_.trace("{} stops n{}", run.id, stop.node.value);
                   to_node(run, stop.node, [this, &run, stop](Node& node) {
                     end_workers(node, {run.id, stop.attempt}, SIGTERM, /*killed=*/true);
                   });
                 },
                 [&](const Release& released) {
                   timeline_.trace("{} releases n{}", run.id, released.node.value);
                   to_node(run, released.node, [this, &run, released](Node& node) {
                     const AttemptKey key{run.id, released.attempt};
                     const auto found = node.supervisors.find(key);
                     if (found == node.supervisors.end() || !found->second.up ||
                         std::exchange(found->second.released, true))
                       return;
                     feed(node, SupervisorDown{key, "exit code 0"});
                   });
                 },
                 [&](const Note& note) { timeline_.trace("{}: {}", run.id, note.text); },
                 [&](const StateChanged& changed) {
                   timeline_.trace("{} is {}: {}", run.id, to_string(changed.to), changed.reason);
                   if (changed.to != RunState::Running) return;
                   if (!run.began) run.began = timeline_.now();
                   const bool fails = run.attempts++ < run.plan.failures;
                   const Attempt attempt = run.controller->attempt();
                   const Duration after =
                       fails || run.plan.dies ? run.plan.takes / 2 : run.plan.takes;
                   timeline_.after(after, [this, &run, attempt, fails] {
                     if (run.over || run.controller->attempt() != attempt) return;
                     check_placed(run);
                     if (run.plan.dies) return die(run);
                     for (const auto& node : nodes_)
                       end_workers(*node, {run.id, attempt}, fails ? 1 : 0, /*killed=*/false);
                   });
                 },
                 [&](const RunEnded&) {
                   run.over = true;
                   ended_ = timeline_.now();
                   for (const auto& node : nodes_)
                     to_node(run, node->id,
                             [this, &run](Node& at) { feed(at, LauncherDetached{run.link}); });
                 },
                 [](const auto&) {}},
      action);
}

/// Kill the launcher. Its workers end, some time later, because nobody comes for them.
void Pool::die(Run& run) {
  run.over = true;
  for (const auto& node : nodes_) {
    to_node(run, node->id, [this, &run](Node& at) {
      feed(at, LauncherLinkClosed{run.link});
      for (const auto& [key, supervisor] : at.supervisors) {
        if (key.run_id != run.id) continue;
        timeline_.after(timeline_.random.between(seconds(1), seconds(20)), [this, &at, key = key] {
          feed(at, SupervisorDown{key, "orphaned"});
        });
      }
    });
  }
}

void Pool::prepare(Run& run, const Prepare& what) {
  AttemptAsked asked{run.link, what.attempt, {}};
  asked.message.local_world_size = what.placed.local_world_size;
  asked.message.per_worker.cpu = run.plan.cpus;
  to_node(run, what.placed.node, [this, asked](Node& node) { feed(node, asked); });
}

// ---- nodes

template <class F>
void Pool::to_node(Run& run, NodeId id, F what) {
  TimePoint& newest = run.to_nodes[id];
  newest = std::max(newest, timeline_.now() + timeline_.random.between(kDelayMin, kDelayMax));
  timeline_.at(newest, [this, id, what] { what(*nodes_[id.value]); });
}

void Pool::to_run(Node& node, LinkId link, RunEvent event) {
  Run& run = *runs_[link - 1];
  TimePoint& newest = run.to_here[node.id];
  newest = std::max(newest, timeline_.now() + timeline_.random.between(kDelayMin, kDelayMax));
  timeline_.at(newest, [this, &run, event = std::move(event)] { feed(run, event); });
}

void Pool::feed(Node& node, const NodeEvent& event) {
  for (const NodeAction& action : node.agent.handle(event)) perform(node, action);
}

void Pool::perform(Node& node, const NodeAction& action) {
  std::visit(
      Overloaded{
          [&](const SendOffer& send) {
            const NodeOffer& offer = send.offer;
            Run& run = *runs_[send.link - 1];
            NodeUp up{{node.id, offer.node_name, offer.total, offer.free}, "10.0.0.1"};
            up.attached = run.attached.insert(node.id).second;
            up.owner_has = offer.owner_has;
            up.owner_wants = offer.owner_wants;
            up.runs = offer.runs;
            for (const std::uint32_t attempt : offer.attempts)
              up.attempts.push_back(Attempt{attempt});
            to_run(node, send.link, std::move(up));
          },
          [&](const SpawnSupervisor& spawned) {
            const double cpus = spawned.message.claimed.cpu;
            timeline_.trace("n{} spawns {}", node.id.value, spawned.key.run_id);
            check_turn(*runs_[spawned.link - 1], node.id, cpus);
            node.supervisors[spawned.key].cpus = cpus;
            if (node.free() < -kSlack) fail(fmt::format("n{} is overcommitted", node.id.value));
            timeline_.after(timeline_.random.between(milliseconds(1), milliseconds(50)),
                            [this, &node, link = spawned.link, key = spawned.key, cpus] {
                              SupervisorHello hello{key.run_id, key.attempt.value, 1};
                              hello.claimed.cpu = cpus;
                              const auto it = node.supervisors.find(key);
                              if (it == node.supervisors.end()) return;
                              it->second.up = true;
                              feed(node, SupervisorUp{key, hello});
                              SupervisorAttached attached{key.attempt, node.id};
                              attached.has_workers = false;
                              to_run(node, link, std::move(attached));
                              to_run(node, link, AttemptPrepared{key.attempt, node.id, 41000});
                            });
          },
          [&](const RefuseAttempt& refused) {
            to_run(node, refused.link,
                   StartRefused{refused.attempt, node.id, Rank{0}, refused.error, refused.busy});
            timeline_.trace("{}", refused.error.message);
          },
          [&](const TellAttemptLost& lost) {
            to_run(node, lost.link,
                   SupervisorLost{lost.attempt, node.id, lost.reason, lost.standby});
          },
          [&](const StopAttempt& stop) { end_workers(node, stop.key, SIGKILL, /*killed=*/true); },
          [&](const ReapAttemptLeftovers& reap) {
            timeline_.after(timeline_.random.between(Duration{0}, milliseconds(20)),
                            [this, &node, key = reap.key] {
                              node.supervisors.erase(key);
                              feed(node, AttemptLeftoversReaped{key});
                            });
          },
          [](const auto&) {}},
      action);
}

LinkId Pool::link_of(const std::string& run_id) const {
  const auto run =
      std::find_if(runs_.begin(), runs_.end(), [&](const auto& one) { return one->id == run_id; });
  return (*run)->link;
}

void Pool::start_workers(Node& node, const AttemptKey& key, const Start& action) {
  const auto found = node.supervisors.find(key);
  if (found == node.supervisors.end()) return;
  AttemptStarted started{key.attempt, node.id, {}};
  for (const WorkerRanks& worker : ranks_on(action.placed, *action.placement)) {
    found->second.living.insert(Rank{worker.rank});
    started.pids.emplace_back(Rank{worker.rank}, 100 + worker.rank);
  }
  to_run(node, link_of(key.run_id), std::move(started));
}

void Pool::end_workers(Node& node, const AttemptKey& key, int status, bool killed) {
  const auto found = node.supervisors.find(key);
  if (found == node.supervisors.end() || !found->second.up) return;
  for (const Rank rank : std::exchange(found->second.living, {})) {
    WorkerEnd end{.status = status, .stop_requested = killed};
    end.signaled = killed;
    to_run(node, link_of(key.run_id), RankExited{key.attempt, rank, end});
  }
  to_run(node, link_of(key.run_id), NodeGroupGone{key.attempt, node.id});
}

// ---- what must hold

/// Check that nodes keep for a run with workers the room of these, and no other.
void Pool::check_placed(const Run& run) {
  if (plan_.keeps_no_room) return;
  for (const auto& node : nodes_) {
    const auto want = run.wants.find(node->id);
    const KeepRoom keep = want == run.wants.end() ? KeepRoom{} : want->second;
    const double kept = keep.workers == 0 ? 0 : keep.workers_here * run.plan.cpus;
    if (std::abs(kept - node->held_by(run.id)) > kSlack || (kept > 0 && !keep.place.placed))
      fail(fmt::format("n{} keeps {} cores for {}, which has {} there", node->id.value, kept,
                       run.id, node->held_by(run.id)));
  }
}

/// Check that a run which begins takes nothing on the node that is kept for a run before it. While
/// the node may not have heard of all that runs want there, there is no such order.
void Pool::check_turn(const Run& run, NodeId id, double cpus) {
  const auto own = run.wants.find(id);
  if (own != run.wants.end() && own->second.place.placed &&
      cpus <= own->second.workers_here * run.plan.cpus + kSlack)
    return;  // it is its own room
  for (const auto& other : runs_)
    if (!other->over && other->waits_at(id) && timeline_.now() < other->wants_since[id] + kHeard)
      return;
  for (const auto& other : runs_) {
    if (other->number == run.number || other->over || !other->waits_at(id)) continue;
    if (run.waits_at(id) &&
        !goes_before(other->wants[id].place, other->id, own->second.place, run.id))
      continue;
    const Node& node = *nodes_[id.value];
    const double room = other->wants[id].workers_here * other->plan.cpus - node.held_by(other->id);
    const double before = node.free(), after = before - cpus;
    ++checked_;
    if (std::min(after, room) < std::min(before, room) - kSlack)
      fail(fmt::format("{} takes {} of the {} cores that n{} keeps for {}", run.id, cpus,
                       std::min(before, room), id.value, other->id));
  }
}

}  // namespace train::sim
