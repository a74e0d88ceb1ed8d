#include "tests/sim/daemon_link.h"

#include <algorithm>

namespace train::sim {
namespace {

constexpr Duration kHandshakeLimit = seconds(5);

Duration heartbeat_every(const FailureConfig& failure) {
  return std::min<Duration>(seconds(1), failure.node_suspect_after / 3);
}

LivenessLimits limits_of(const Sim& sim) {
  const FailureConfig& failure = sim.plan.spec.run_config.failure_config;
  LivenessLimits limits{.suspect_after = failure.node_suspect_after,
                        .dead_after = failure.node_dead_after,
                        .away_limit = std::max(failure.orphan_timeout, failure.node_dead_after),
                        .heartbeat_every = heartbeat_every(failure)};
  if (sim.mutant == Mutant::SuspectIsDead) {
    limits.suspect_after = limits.heartbeat_every;
    limits.dead_after = limits.away_limit = Duration{0};
  }
  if (sim.mutant == Mutant::VerdictIsEarly)
    limits.dead_after = limits.away_limit = limits.dead_after / 2;
  if (sim.mutant == Mutant::SilenceIsNoTimeout)
    limits.dead_after = limits.away_limit = Duration::max();
  return limits;
}

}  // namespace

SimDaemonLink::SimDaemonLink(Sim& sim, SimNode& node, std::uint64_t generation, bool has_workers,
                             Handlers handlers)
    : sim_(sim),
      node_(node),
      generation_(generation),
      handlers_(std::move(handlers)),
      liveness_(limits_of(sim), has_workers, sim.timeline.now()) {}

// ---- connecting

void SimDaemonLink::dial() {
  if (over_) return;
  const SimHost& host = node_.host();
  const SimPath& path = host.network;
  liveness_.dialling(sim_.timeline.now());
  const Duration connect_limit = liveness_.connect_limit();
  const Duration round_trip = path.sample(sim_.timeline, 1) + path.sample(sim_.timeline, 0);
  const std::uint64_t serial = ++serial_;
  const bool no_way = !path.open() || !host.powered || round_trip > connect_limit;
  sim_.after(no_way ? connect_limit : round_trip, [this, serial, no_way] {
    if (over_ || serial != serial_) return;
    if (no_way) return ended(Cause::Silent);
    if (!node_.up()) return ended(Cause::Away);
    dialled(node_.host().boots);
  });
}

// Connecting is followed by a hello, an answer and a proof.
void SimDaemonLink::dialled(std::uint64_t boots) {
  const SimPath& path = node_.host().network;
  const Duration limit = liveness_.handshake_limit().value_or(kHandshakeLimit);
  const Duration takes = path.sample(sim_.timeline, 1) + path.sample(sim_.timeline, 0);
  const bool too_long = takes > limit;
  sim_.after(too_long ? limit : takes, [this, serial = serial_, too_long, boots] {
    if (over_ || serial != serial_) return;
    const SimHost& host = node_.host();
    if (too_long || !host.network.open() || !host.powered) return ended(Cause::Silent);
    if (!node_.up() || host.boots != boots) return ended(Cause::Away);
    connected();
  });
}

void SimDaemonLink::connected() {
  const std::uint64_t serial = ++serial_;
  link_ = std::make_shared<SimLink>(sim_.timeline, node_.host().network);
  link_->set_end(0, {[this, serial](const SimFrame& frame) {
                       if (!over_ && serial == serial_) received(frame);
                     },
                     [this, serial] {
                       if (!over_ && serial == serial_) ended(Cause::Away);
                     }});
  attached_ = offered_ = false;
  liveness_.connected(sim_.timeline.now());
  node_.accept(link_);
  const FailureConfig& failure = sim_.plan.spec.run_config.failure_config;
  const auto ms = [](Duration d) { return std::chrono::duration_cast<milliseconds>(d).count(); };
  AttachRun attach{"run", "run", generation_};
  attach.heartbeat_ms = ms(heartbeat_every(failure));
  attach.dead_after_ms = ms(failure.node_dead_after);
  attach.orphan_timeout_ms = ms(failure.orphan_timeout);
  link_->send(0, frame_of({}, attach));
  watch();
}

// ---- one connection

void SimDaemonLink::watch() {
  static const SimFrame kHeartbeat = frame_of({}, Heartbeat{});
  switch (liveness_.tick(sim_.timeline.now())) {
    case NodeLiveness::Next::Close:
      return ended(Cause::Silent);
    case NodeLiveness::Next::Beat:
      link_->send(0, kHeartbeat);
      break;
    case NodeLiveness::Next::Wait:
      break;
  }
  sim_.timeline.at(liveness_.next_deadline(), [this, serial = serial_] {
    if (!over_ && serial == serial_) watch();
  });
}

void SimDaemonLink::received(const SimFrame& frame) {
  liveness_.heard(sim_.timeline.now());
  if (frame.get<HeartbeatAck>() != nullptr) return;
  attached_ = true;
  if (const auto* offer = frame.get<NodeOffer>()) {
    liveness_.attached();
    handlers_.offered(*offer, !std::exchange(offered_, true));
  } else if (frame.get<Refused>() != nullptr) {
    handlers_.refused();
  } else {
    handlers_.received(frame);
  }
}

void SimDaemonLink::ended(Cause cause) {
  ++serial_;
  if (link_) std::exchange(link_, nullptr)->close(0);
  const NodeLiveness::Verdict verdict = liveness_.disconnected(cause, sim_.timeline.now());
  if (verdict.lost) handlers_.down(fmt::format("no news for {}", format_duration(verdict.silent)));
  Duration pause = verdict.dial_in;
  if (sim_.mutant == Mutant::WallClockInTimers)
    pause += milliseconds(sim_.plan.wall_us(node_.host().index, sim_.timeline.now()) % 7);
  sim_.after(pause, [this, serial = serial_] {
    if (!over_ && serial == serial_) dial();
  });
}

void SimDaemonLink::send(SimFrame frame) {
  if (link_ && attached_) link_->send(0, std::move(frame));
}

void SimDaemonLink::detach() {
  if (link_) link_->send(0, frame_of({}, DetachRun{}));
  if (link_) link_->close(0);
  over_ = true;
}

void SimDaemonLink::die() {
  if (link_) link_->close(0);
  over_ = true;
}

void SimDaemonLink::reset() {
  if (link_)
    link_->cut(sim_.between(Duration{0}, milliseconds(50)),
               sim_.between(Duration{0}, milliseconds(50)));
}

void SimDaemonLink::forget() {
  if (link_) link_->forget();
}

}  // namespace train::sim
