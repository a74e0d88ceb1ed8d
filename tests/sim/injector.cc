#include "tests/sim/injector.h"

#include <algorithm>

namespace train::sim {
namespace {

constexpr int kTowardsLauncher = 0, kTowardsNode = 1;  // directions of SimHost::network
// L3: the verdict comes with the next dial that fails after dead_after. This adds the pause before
// the dial, the connecting and the handshake.
constexpr Duration kVerdictSlack = seconds(6);
constexpr Duration kNewsOnTheWay = seconds(2);  // from a node that is well again

}  // namespace

void Injector::schedule() {
  for (const Fault& fault : sim_.plan.faults)
    sim_.after(fault.at, [this, &fault] { inject(fault); });
  sim_.after(sim_.plan.faults_end, [this] { heal(); });
}

void Injector::inject(const Fault& fault) {
  SimNode& node = *nodes_[fault.node];
  switch (fault.kind) {
    case FaultKind::CrashWorker:
    case FaultKind::OomWorker:
    case FaultKind::HangWorker:
    case FaultKind::StopWorker:
    case FaultKind::SlowWorker:
    case FaultKind::WedgeWorker:
      return strike_worker(fault);
    case FaultKind::SlowNode:
      sim_.timeline.trace("fault: node {} is slow", fault.node);
      node.host().be_slow(2 + fault.pick % 9);
      unwell(fault.node, fault.length);
      return sim_.after(fault.length, [&node] { node.host().be_slow(1); });
    case FaultKind::CrashSupervisor:
      for (const auto& supervisor : node.supervisors()) {
        if (supervisor->alive()) return supervisor->crash();
      }
      return;
    case FaultKind::CrashDaemon:
      return kill_daemon(fault);
    case FaultKind::PowerLoss:
      return cut_power(fault);
    case FaultKind::ResetLink:
      sim_.timeline.trace("fault: link to node {} is reset", fault.node);
      unwell(fault.node, Duration{0});
      return launcher_->link(fault.node).reset();
    case FaultKind::ForgetLink:
      sim_.timeline.trace("fault: link to node {} is forgotten", fault.node);
      unwell(fault.node, Duration{0});
      return launcher_->link(fault.node).forget();
    case FaultKind::Partition:
      return block(fault, true, true);
    case FaultKind::PartitionUp:
      return block(fault, true, false);
    case FaultKind::PartitionDown:
      return block(fault, false, true);
    case FaultKind::Clog:
      return clog(fault);
    case FaultKind::SayAgain:
      sim_.timeline.trace("fault: node {} says everything again", fault.node);
      return node.say_everything_again();
    case FaultKind::StaleLauncher:
      return attach_stale_launcher(fault.node);
    case FaultKind::DiskFull:
    case FaultKind::DiskSlow:
      return fill_disk(fault);
    case FaultKind::DrainNode:
      return drain(fault);
    case FaultKind::RivalRun:
      return begin_rival(fault);
    case FaultKind::KillLauncher:
      return sim_.kill_launcher(fault.length);
    case FaultKind::StallDriver:
      sim_.timeline.trace("fault: the driver stalls for {}", format_duration(fault.length));
      return launcher_->driver().stall(fault.length);
    case FaultKind::KillDriver:
      sim_.timeline.trace("fault: the driver dies");
      return launcher_->driver().die();
    case FaultKind::KillIngest:
      for (const auto& supervisor : node.supervisors())
        if (supervisor->alive() && supervisor->ingest().kill(fault.pick)) return;
      return;
  }
}

// ---- processes

SimWorker* Injector::pick_worker(const Fault& fault) {
  const auto on_node = [&](SimNode& node) -> SimWorker* {
    std::vector<SimWorker*> workers;
    for (const auto& supervisor : node.supervisors()) {
      for (const auto& worker : supervisor->workers()) {
        if (worker->alive()) workers.push_back(worker.get());
      }
    }
    return workers.empty() ? nullptr
                           : workers[static_cast<std::size_t>(fault.pick) % workers.size()];
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const std::size_t node = (static_cast<std::size_t>(fault.node) + i) % nodes_.size();
    if (SimWorker* worker = on_node(*nodes_[node])) return worker;
  }
  return nullptr;
}

void Injector::strike_worker(const Fault& fault) {
  SimWorker* worker = pick_worker(fault);
  if (worker == nullptr) return;
  const auto say = [&](const std::string& what) {
    sim_.timeline.trace("fault: worker on node {}, attempt {} rank {} {}", worker->location().node,
                        worker->location().attempt.value, worker->location().rank().value, what);
  };
  switch (fault.kind) {
    case FaultKind::HangWorker:
      say("hangs");
      worker->hang(fault.pick % 2 == 1);
      return expect_hang_is_known(worker);
    case FaultKind::StopWorker:
      say("is stopped for " + format_duration(fault.length));
      worker->stop_for(fault.length, false);
      return expect_hang_is_known(worker);
    case FaultKind::WedgeWorker:
      say("waits in the kernel for " + format_duration(fault.length));
      worker->stop_for(fault.length, true);
      return expect_hang_is_known(worker);
    case FaultKind::SlowWorker:
      say("is slow by " + format_duration(fault.length));
      return worker->be_slow_once(fault.length, fault.pick % 2 == 1);
    case FaultKind::OomWorker:
      say("runs out of memory");
      return worker->run_out_of_memory();
    default:
      say("crashes");
      return worker->crash(fault.pick);
  }
}

// L6: a rank that hangs longer than its limit ends its group, unless something hides or ends it
// first.
void Injector::expect_hang_is_known(SimWorker* worker) {
  const WorkerLocation& location = worker->location();
  const bool undisturbed = sim_.plan.judges_hangs() && sim_.plan.only_worker_faults() &&
                           sim_.plan.healthy_link(location.node) &&
                           sim_.plan.links[location.node].loss == 0;
  if (!undisturbed || !worker->hangs()) return;
  const Duration within = sim_.plan.hang_known_within();
  sim_.after(std::max<Duration>(within - worker->silent_by_itself_for(), milliseconds(1)),
             [this, worker, within] {
               if (!worker->hangs()) return;
               const RunController& controller = launcher_->controller();
               if (controller.state() != RunState::Running ||
                   controller.attempt() != worker->location().attempt)
                 return;
               if (worker->silent_by_itself_for() < within) return expect_hang_is_known(worker);
               sim_.check.fail("L6", fmt::format("rank {} hangs, and nobody ends its group",
                                                 worker->location().rank().value));
             });
}

void Injector::kill_daemon(const Fault& fault) {
  SimNode& node = *nodes_[fault.node];
  if (!node.up()) return;
  node.crash();
  unwell(fault.node, fault.length);
  sim_.after(fault.length, [this, index = fault.node] {
    if (nodes_[index]->up()) return;
    sim_.timeline.trace("node {} traind is back", index);
    nodes_[index]->restart();
  });
}

void Injector::drain(const Fault& fault) {
  SimNode& node = *nodes_[fault.node];
  if (!node.up()) return;
  node.drain(milliseconds(fault.pick));
  unwell(fault.node, fault.length);
  sim_.after(fault.length, [this, index = fault.node] {
    SimNode& drained = *nodes_[index];
    if (drained.up() && !drained.draining()) return;  // another traind is there already
    drained.crash();
    sim_.timeline.trace("node {} another traind is there", index);
    drained.restart();
  });
}

void Injector::begin_rival(const Fault& fault) {
  const int rival = next_rival_++;
  nodes_[fault.node]->begin_rival(rival, fault.pick);
  sim_.after(fault.length, [this, rival, index = fault.node] { nodes_[index]->end_rival(rival); });
}

void Injector::cut_power(const Fault& fault) {
  SimNode& node = *nodes_[fault.node];
  if (!node.host().powered) return;
  node.lose_power();
  unwell(fault.node, fault.length);
  block({fault.at, FaultKind::Partition, fault.node, 0, fault.length}, true, true);
  sim_.after(fault.length, [this, index = fault.node] {
    if (!nodes_[index]->host().powered) nodes_[index]->boot();
  });
}

// ---- the network

/// Mark a node as unwell for `length`: in that time, any verdict about it is right.
void Injector::unwell(int node, Duration length) {
  Isolation& state = isolations_[node];
  state.unwell_until = std::max(state.unwell_until, sim_.timeline.now() + length);
  SimHost& host = nodes_[node]->host();
  const Duration felt = sim_.plan.spec.run_config.failure_config.node_dead_after + kNewsOnTheWay;
  if (!host.unwell_since ||
      (host.healthy_since && sim_.timeline.now() - *host.healthy_since > felt))
    host.unwell_since = sim_.timeline.now();
  host.healthy_since.reset();
  sim_.check.node_unwell(node);
  sim_.timeline.at(state.unwell_until, [this, node] {
    const Isolation& now = isolations_[node];
    if (now.blocked > 0 || sim_.timeline.now() < now.unwell_until) return;
    nodes_[node]->host().healthy_since = sim_.timeline.now();
    sim_.check.node_well(node);
  });
}

void Injector::block(const Fault& fault, bool up, bool down) {
  SimPath& path = nodes_[fault.node]->host().network;
  sim_.timeline.trace("fault: node {} is cut off{}", fault.node,
                      up && down ? ""
                      : up       ? ", nothing comes from it"
                                 : ", nothing reaches it");
  Isolation& state = isolations_[fault.node];
  if (up) path.block(kTowardsLauncher);
  if (down) path.block(kTowardsNode);
  if (state.blocked++ == 0) {
    // A node that can still send is silent once it gives up a launcher that it does not hear.
    const Duration speaks =
        up ? Duration{0} : sim_.plan.spec.run_config.failure_config.node_dead_after;
    expect_verdict(fault.node, ++state.number, speaks);
  }
  unwell(fault.node, fault.length);
  sim_.after(fault.length, [this, node = fault.node] {
    Isolation& isolation = isolations_[node];
    if (--isolation.blocked > 0) return;
    sim_.timeline.trace("node {} is in reach again", node);
    ++isolation.number;
    SimPath& healed = nodes_[node]->host().network;
    healed.unblock(sim_.timeline, kTowardsLauncher);
    healed.unblock(sim_.timeline, kTowardsNode);
  });
}

// L3: the launcher declares a silent node dead within a bound, and a node that hears no launcher
// gives up its lease.
void Injector::expect_verdict(int node, std::uint64_t isolation, Duration speaks) {
  const FailureConfig& failure = sim_.plan.spec.run_config.failure_config;
  const bool was_attached = launcher_->link(node).attached();
  const Duration within = speaks + failure.node_dead_after + failure.node_suspect_after +
                          kVerdictSlack + 2 * nodes_[node]->host().network.delay_max;
  sim_.after(within, [this, node, isolation, was_attached, launcher = launcher_.get()] {
    if (isolations_[node].number != isolation || launcher_->finished()) return;
    const bool the_same = launcher_.get() == launcher && launcher_->alive();
    if (the_same && was_attached && !launcher_->link(node).told_down())
      sim_.check.fail("L3", fmt::format("node {} is silent, and not declared dead", node));
    if (nodes_[node]->host().network.blocked[kTowardsNode] && nodes_[node]->leased())
      sim_.check.fail("L3", fmt::format("node {} believes in a launcher that is silent", node));
  });
}

void Injector::clog(const Fault& fault) {
  SimPath& path = nodes_[fault.node]->host().network;
  sim_.timeline.trace("fault: the way to node {} stands still", fault.node);
  const TimePoint until = sim_.timeline.now() + fault.length;
  for (const int to : {kTowardsLauncher, kTowardsNode}) {
    if (fault.pick % 3 != 1 - to) path.clogged_until[to] = std::max(path.clogged_until[to], until);
  }
  unwell(fault.node, fault.length + kNewsOnTheWay);
}

// Attach a launcher that another one has replaced, and that does not know it yet.
void Injector::attach_stale_launcher(int index) {
  if (!nodes_[index]->up() || !nodes_[index]->host().network.open()) return;
  sim_.timeline.trace("fault: a launcher of generation 1 calls node {}", index);
  auto link = std::make_shared<SimLink>(sim_.timeline, nodes_[index]->host().network);
  link->set_end(0, {});
  nodes_[index]->accept(link);
  AttachRun attach{"run", "run", 1};
  attach.orphan_timeout_ms = std::chrono::duration_cast<milliseconds>(
                                 sim_.plan.spec.run_config.failure_config.orphan_timeout)
                                 .count();
  link->send(0, frame_of({}, attach));
  link->send(0, frame_of(launcher_->controller().attempt(), StopWorkers{0, "I am the launcher"}));
  stale_.push_back(link);
  sim_.after(seconds(1), [link] { link->close(0); });
}

// ---- storage

void Injector::fill_disk(const Fault& fault) {
  const bool full = fault.kind == FaultKind::DiskFull;
  sim_.timeline.trace("fault: the storage is {}", full ? "full" : "slow");
  int& faults = full ? full_disks_ : slow_disks_;
  ++faults;
  const auto apply = [this] {
    sim_.disk_full = full_disks_ > 0;
    sim_.disk_extra = slow_disks_ > 0 ? seconds(3) : Duration{0};
  };
  apply();
  sim_.after(fault.length, [&faults, apply] {
    --faults;
    apply();
  });
}

// ---- the end of faults

// Every fault has ended by itself. From here on, links are quick and lose nothing.
void Injector::heal() {
  sim_.timeline.trace("the faults are over");
  for (const auto& node : nodes_) {
    SimPath& path = node->host().network;
    path.loss = 0;
    path.delay_max = std::min<Duration>(path.delay_max, milliseconds(20));
    path.delay_min = std::min(path.delay_min, path.delay_max);
  }
  sim_.check.faults_over();
}

}  // namespace train::sim
