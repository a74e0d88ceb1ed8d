#include "tests/sim/node.h"

#include <algorithm>

#include "lib/base/overloaded.h"

namespace train::sim {
namespace {

// The values of daemon/server/daemon.cc.
constexpr Duration kDrainStopGrace = seconds(10), kDrainReleaseLimit = seconds(5);
constexpr LinkId kRivalLinks = 1u << 30;  // and up: of other runs

std::int64_t ms(Duration d) { return std::chrono::duration_cast<milliseconds>(d).count(); }

}  // namespace

SimNode::SimNode(Sim& sim, int index) : sim_(sim) {
  host_.index = index;
  host_.be_slow(1);
  const LinkHabits& link = sim.plan.links[index];
  host_.network.delay_min = link.delay_min;
  host_.network.delay_max = link.delay_max;
  host_.network.loss = link.loss;
  restart();
}

void SimNode::restart() {
  if (!host_.powered) return;  // boot() will start it
  Resources total;
  total.cpu = sim_.plan.cpus_per_node;
  ++incarnation_;
  drain_until_.reset();
  newest_generation_ = 0;
  agent_ = std::make_unique<NodeAgent>(fmt::format("node-{}", host_.index), "host",
                                       std::vector<std::string>{"10.0.0.1"}, total);
  for (const auto& [key, supervisor] : std::map(files_)) {
    feed(AdoptionBegun{});
    Duration takes = sim_.between(Duration{0}, milliseconds(20));
    if (sim_.unlucky(Site::AdoptedLate)) takes += sim_.between(Duration{0}, seconds(4));
    later(takes, [this, key = key, supervisor = supervisor] {
      if (supervisor->alive()) return void(serve_supervisor(supervisor, key, false));
      files_.erase(key);
      feed(AdoptionEnded{});
    });
  }
}

void SimNode::crash() {
  if (!up()) return;
  sim_.timeline.trace("node {} traind killed", host_.index);
  agent_.reset();
  for (auto& [id, launcher] : std::exchange(launchers_, {})) launcher.link->close(1);
  supervisors_.clear();
  for (auto& link : std::exchange(serving_, {})) link->close(0);
}

// Does what Daemon::drain() does.
void SimNode::drain(Duration grace) {
  if (!up() || draining()) return;
  sim_.timeline.trace("node {} is to be drained within {}", host_.index, format_duration(grace));
  drain_until_ = sim_.timeline.now() + grace;
  feed(DrainAsked{"SIGTERM"});
  later(grace, [this] { expire_drain(2); });
}

void SimNode::expire_drain(int times_left) {
  if (times_left == 0) return crash();
  const Duration more = times_left == 2 ? kDrainStopGrace + kDrainReleaseLimit : kDrainReleaseLimit;
  drain_until_ = sim_.timeline.now() + more;
  feed(DrainExpired{});
  if (up()) later(more, [this, times_left] { expire_drain(times_left - 1); });
}

void SimNode::leave_when_drained() {
  if (!draining() || !agent_->drained()) return;
  // Flush what is on its way to launchers first.
  later(Duration{0}, [this] {
    if (agent_->drained()) crash();
  });
}

void SimNode::lose_power() {
  sim_.timeline.trace("node {} loses power", host_.index);
  host_.powered = false;
  ++host_.boots;
  ++incarnation_;
  agent_.reset();
  for (auto& [id, launcher] : std::exchange(launchers_, {})) launcher.link->vanish(1);
  for (auto& supervisor : all_) supervisor->vanish();
  for (auto& link : std::exchange(serving_, {})) link->forget();
  supervisors_.clear();
  files_.clear();
  host_.pids.clear();
}

void SimNode::boot() {
  sim_.timeline.trace("node {} boots", host_.index);
  host_.powered = true;
  restart();
}

bool SimNode::leased() const { return up() && agent_->link_of("run").has_value(); }

void SimNode::say_everything_again() {
  for (auto& supervisor : all_) {
    if (supervisor->alive()) supervisor->say_everything_again();
  }
}

// ---- launchers

void SimNode::accept(LinkPtr link) {
  const LinkId id = next_link_++;
  const std::uint64_t incarnation = incarnation_;
  link->set_end(1, {[this, id, incarnation](const SimFrame& frame) {
                      if (up() && incarnation == incarnation_) from_launcher(id, frame);
                    },
                    [this, id, incarnation] {
                      if (up() && incarnation == incarnation_) drop_launcher(id);
                    }});
  launchers_[id] = {.link = std::move(link), .last_heard = sim_.timeline.now()};
  sim_.check.links_of_node(launchers_.size());
  watch(id);
}

void SimNode::drop_launcher(LinkId id) {
  const auto found = launchers_.find(id);
  if (found == launchers_.end()) return;
  feed(LauncherLinkClosed{id});
  found->second.link->close(1);
  launchers_.erase(found);
}

// Drop a connection that is silent for longer than AttachRun allows.
void SimNode::watch(LinkId id) {
  Launcher& launcher = launchers_.at(id);
  const Duration until = launcher.last_heard + launcher.silence_max - sim_.timeline.now();
  sim_.after(until, [this, id, number = ++launcher.watch, incarnation = incarnation_] {
    if (!up() || incarnation != incarnation_) return;
    const auto found = launchers_.find(id);
    if (found == launchers_.end() || found->second.watch != number) return;
    if (sim_.timeline.now() >= found->second.last_heard + found->second.silence_max)
      return drop_launcher(id);
    watch(id);
  });
}

void SimNode::to_launcher(LinkId id, SimFrame frame) {
  if (const auto found = launchers_.find(id); found != launchers_.end())
    found->second.link->send(1, std::move(frame));
}

void SimNode::from_launcher(LinkId id, const SimFrame& frame) {
  static const SimFrame kHeartbeatAck = frame_of({}, HeartbeatAck{});
  const auto found = launchers_.find(id);
  if (found == launchers_.end()) return;
  found->second.last_heard = sim_.timeline.now();
  if (frame.get<Heartbeat>() != nullptr) {
    found->second.link->send(1, kHeartbeatAck);
  } else if (const auto* message = frame.get<AttachRun>()) {
    found->second.silence_max = milliseconds(message->dead_after_ms);
    watch(id);
    attach(id, *message);
  } else if (const auto* prepare = frame.get<PrepareAttempt>()) {
    feed(AttemptAsked{id, frame.attempt, *prepare});
  } else if (const auto* claim = frame.get<ClaimRoom>()) {
    feed(RoomClaimed{id, *claim});
  } else if (frame.get<DetachRun>() != nullptr) {
    feed(LauncherDetached{id});
    if (const auto still = launchers_.find(id); still != launchers_.end()) {
      still->second.link->close(1);
      launchers_.erase(still);
    }
  } else {
    relay(id, frame);
  }
}

void SimNode::attach(LinkId id, const AttachRun& message) {
  AttachRun told = message;
  if (sim_.mutant == Mutant::GenerationNotChecked) told.generation = 99;
  const auto before = agent_->link_of(message.run_id);
  const auto holder = before ? launchers_.find(*before) : launchers_.end();
  const std::uint64_t held_by = holder == launchers_.end() ? 0 : holder->second.generation;
  launchers_.at(id).generation = message.generation;
  newest_generation_ = std::max(newest_generation_, message.generation);
  feed(LauncherAttached{id, told});
  sim_.check.attached(message.generation, held_by, agent_->link_of(message.run_id) == id);
}

void SimNode::relay(LinkId id, const SimFrame& frame) {
  const auto run = agent_->run_of(id);
  if (!run) return;
  const auto supervisor = supervisors_.find(AttemptKey{*run, frame.attempt});
  if (supervisor == supervisors_.end()) return;
  sim_.check.order_passed(launchers_.at(id).generation, newest_generation_);
  supervisor->second->send(0, frame);
}

void SimNode::feed(const NodeEvent& event) {
  for (const NodeAction& action : agent_->handle(event)) perform(action);
  leave_when_drained();
}

void SimNode::perform(const NodeAction& action) {
  std::visit(
      Overloaded{
          [&](const RefuseLink& refuse) {
            to_launcher(refuse.link, frame_of({}, Refused{"fenced", refuse.error.message, ""}));
          },
          [&](const DropLink& drop) {
            to_launcher(drop.link, frame_of({}, Refused{"fenced", "taken over", ""}));
          },
          [&](const SendOffer& offer) { to_launcher(offer.link, frame_of({}, offer.offer)); },
          [&](const SendPrepare& prepare) {
            if (const auto link = supervisors_.find(prepare.key); link != supervisors_.end())
              link->second->send(0, frame_of(prepare.key.attempt, prepare.message));
          },
          [&](const SpawnSupervisor& spawned) { spawn(spawned); },
          [&](const RefuseAttempt& refused) {
            to_launcher(
                refused.link,
                frame_of(refused.attempt, StartFailed{0, std::string(to_string(refused.error.code)),
                                                      refused.error.message, "",
                                                      sim_.mutant != Mutant::RoomIsAFailure}));
          },
          [&](const TellSupervisor& tell) {
            if (const auto link = supervisors_.find(tell.key); link != supervisors_.end())
              link->second->send(0, frame_of(tell.key.attempt, tell.state));
          },
          [&](const TellAttemptLost& lost) {
            to_launcher(lost.link, frame_of(lost.attempt, AttemptLost{lost.reason, lost.standby}));
          },
          [&](const StopAttempt& stop) {
            if (const auto link = supervisors_.find(stop.key); link != supervisors_.end())
              link->second->send(
                  0, frame_of(stop.key.attempt,
                              StopWorkers{ms(stop.at_once ? Duration{0} : kDrainStopGrace),
                                          stop.reason}));
          },
          [&](const ReapAttemptLeftovers& reap) { reap_leftovers(reap.key); },
          [&](const TellDraining& draining) {
            const Duration left = std::max(Duration{0}, *drain_until_ - sim_.timeline.now());
            to_launcher(draining.link, frame_of({}, NodeDraining{ms(left), draining.reason}));
          }},
      action);
}

// ---- other runs: they have no processes here, and only what they claim matters

void SimNode::begin_rival(int rival, double cpus) {
  if (!up()) return;
  sim_.timeline.trace("node {} another run wants {} CPUs", host_.index, cpus);
  const LinkId link = kRivalLinks + static_cast<LinkId>(rival);
  feed(LauncherAttached{link, AttachRun{fmt::format("rival-{}", rival), "rival", 1}});
  AttemptAsked asked{link, Attempt{0}, {}};
  asked.message.local_world_size = 1;
  asked.message.per_worker.cpu = cpus;
  feed(asked);
}

void SimNode::end_rival(int rival) {
  if (!up()) return;
  sim_.timeline.trace("node {} another run has ended", host_.index);
  feed(SupervisorDown{{fmt::format("rival-{}", rival), Attempt{0}}, "exit code 0"});
  feed(LauncherDetached{kRivalLinks + static_cast<LinkId>(rival)});
}

// ---- supervisors

void SimNode::reap_leftovers(const AttemptKey& key) {
  Duration takes = sim_.between(Duration{0}, milliseconds(2));
  if (sim_.unlucky(Site::LeftoversLate)) takes = sim_.between(Duration{0}, milliseconds(500));
  later(takes, [this, key] {
    files_.erase(key);
    feed(AttemptLeftoversReaped{key});
  });
}

void SimNode::spawn(const SpawnSupervisor& action) {
  if (action.link >= kRivalLinks) return;
  all_.push_back(std::make_unique<SimSupervisor>(sim_, host_, action));
  SimSupervisor* supervisor = all_.back().get();
  sim_.timeline.trace("node {} attempt {} supervisor spawned", host_.index,
                      action.key.attempt.value);
  files_[action.key] = supervisor;
  supervisor->on_exit([this, key = action.key, incarnation = incarnation_] {
    if (!up() || incarnation != incarnation_)
      return;  // its parent is dead: the adopting traind hears of it by the link
    supervisors_.erase(key);
    feed(SupervisorDown{key, "exit code 0"});
  });
  Duration takes = sim_.between(milliseconds(1), milliseconds(5));
  if (sim_.unlucky(Site::SpawnedLate)) takes += sim_.between(Duration{0}, seconds(3));
  later(takes, [this, supervisor, key = action.key,
                prepare = frame_of(action.key.attempt, action.message)] {
    if (supervisor->alive()) serve_supervisor(supervisor, key, true)->send(0, prepare);
  });
}

LinkPtr SimNode::serve_supervisor(SimSupervisor* supervisor, AttemptKey key, bool ours) {
  auto link = std::make_shared<SimLink>(sim_.timeline, host_.local);
  const std::uint64_t incarnation = incarnation_;
  const auto adopting = std::make_shared<bool>(!ours);  // shared by the two ends of one flow
  link->set_end(0, {[this, key, incarnation, raw = link.get(), adopting](const SimFrame& frame) {
                      if (!up() || incarnation != incarnation_) return;
                      if (const auto* hello = frame.get<SupervisorHello>()) {
                        supervisors_[key] = raw->shared_from_this();
                        newest_generation_ = std::max(newest_generation_, hello->generation);
                        feed(SupervisorUp{key, *hello});
                        if (std::exchange(*adopting, false)) feed(AdoptionEnded{});
                        return;
                      }
                      const auto to = sim_.mutant == Mutant::FramesPassOutOfStep
                                          ? agent_->link_of(key.run_id)
                                          : agent_->route_up(key, frame.type);
                      if (to) to_launcher(*to, frame);
                    },
                    [this, key, incarnation, ours, adopting, raw = link.get()] {
                      if (up() && incarnation == incarnation_)
                        supervisor_left(raw, key, ours, std::exchange(*adopting, false));
                    }});
  serving_.push_back(link);
  supervisor->attach(link);
  return link;
}

void SimNode::supervisor_left(const SimLink* link, AttemptKey key, bool ours, bool adopting) {
  std::erase_if(serving_, [link](const LinkPtr& served) { return served.get() == link; });
  if (const auto found = supervisors_.find(key);
      found != supervisors_.end() && found->second.get() == link)
    supervisors_.erase(found);
  if (adopting)
    feed(AdoptionEnded{});
  else if (!ours)
    feed(SupervisorDown{key, "it ended"});
}

}  // namespace train::sim
