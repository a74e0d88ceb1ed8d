#include "tests/sim/daemon_link.h"

#include <algorithm>

namespace train::sim {
namespace {

constexpr Duration kConnectLimit = seconds(5), kRedialMax = seconds(1);
constexpr Duration kFirstRedial = milliseconds(5);

}  // namespace

SimDaemonLink::SimDaemonLink(Sim& sim, SimNode& node, std::uint64_t epoch, bool has_workers,
                             Handlers handlers)
    : sim_(sim),
      node_(node),
      epoch_(epoch),
      handlers_(std::move(handlers)),
      has_workers_(has_workers),
      told_down_(!has_workers) {
  const FailureConfig& failure = sim.plan.spec.run_config.failure_config;
  suspect_after_ = failure.node_suspect_after;
  dead_after_ = failure.node_dead_after;
  away_limit_ = std::max(failure.orphan_timeout, dead_after_);
  heartbeat_every_ = std::min<Duration>(seconds(1), suspect_after_ / 3);
  redial_max_ =
      std::clamp<Duration>((dead_after_ - suspect_after_) / 4, milliseconds(100), kRedialMax);
  redial_ = kFirstRedial;
  last_heard_ = sim.timeline.now();
}

// ---- connecting

void SimDaemonLink::dial() {
  if (over_) return;
  const SimHost& host = node_.host();
  const SimPath& path = host.network;
  began_ = sim_.timeline.now();
  const Duration connect_limit = ever_attached_ || has_workers_ ? redial_max_ : kConnectLimit;
  const Duration round_trip = path.sample(sim_.timeline, 1) + path.sample(sim_.timeline, 0);
  const std::uint64_t serial = ++serial_;
  const bool no_way = !path.open() || !host.powered || round_trip > connect_limit;
  sim_.after(no_way ? connect_limit : round_trip, [this, serial, no_way, began = began_] {
    if (over_ || serial != serial_) return;
    if (no_way) return ended(Why::Silent);
    if (!node_.up()) return ended(Why::Away);
    dialled(began, node_.host().boots);
  });
}

// Then a hello, an answer and a proof.
void SimDaemonLink::dialled(TimePoint, std::uint64_t boots) {
  const SimPath& path = node_.host().network;
  const Duration limit = ever_attached_ || has_workers_ ? 2 * redial_max_ : kConnectLimit;
  const Duration takes = path.sample(sim_.timeline, 1) + path.sample(sim_.timeline, 0);
  const bool too_long = takes > limit;
  sim_.after(too_long ? limit : takes, [this, serial = serial_, too_long, boots] {
    if (over_ || serial != serial_) return;
    const SimHost& host = node_.host();
    if (too_long || !host.network.open() || !host.powered) return ended(Why::Silent);
    if (!node_.up() || host.boots != boots) return ended(Why::Away);
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
                       if (!over_ && serial == serial_) ended(Why::Away);
                     }});
  listening_since_ = sim_.timeline.now();
  node_.accept(link_);
  const FailureConfig& failure = sim_.plan.spec.run_config.failure_config;
  const auto ms = [](Duration d) { return std::chrono::duration_cast<milliseconds>(d).count(); };
  AttachRun attach{"run", "run", epoch_};
  attach.heartbeat_ms = ms(heartbeat_every_);
  attach.dead_after_ms = ms(dead_after_);
  attach.orphan_timeout_ms = ms(failure.orphan_timeout);
  link_->send(0, frame_of({}, attach));
  watch();
  beat();
}

// ---- one connection

void SimDaemonLink::beat() {
  static const SimFrame kHeartbeat = frame_of({}, Heartbeat{});
  link_->send(0, kHeartbeat);
  sim_.after(heartbeat_every_, [this, serial = serial_] {
    if (!over_ && serial == serial_) beat();
  });
}

// within(suspect_after, receive()).
void SimDaemonLink::watch() {
  const TimePoint since = std::max(last_heard_, listening_since_);
  const Duration patience =
      sim_.mutant == Mutant::SuspectIsDead ? heartbeat_every_ : suspect_after_;
  sim_.timeline.at(std::max(sim_.timeline.now(), since + patience), [this, serial = serial_] {
    if (over_ || serial != serial_) return;
    const Duration patience =
        sim_.mutant == Mutant::SuspectIsDead ? heartbeat_every_ : suspect_after_;
    if (sim_.timeline.now() < std::max(last_heard_, listening_since_) + patience) return watch();
    ended(Why::Silent);
  });
}

void SimDaemonLink::received(const SimFrame& frame) {
  last_heard_ = sim_.timeline.now();
  if (frame.get<HeartbeatAck>() != nullptr) return;
  if (const auto* offer = frame.get<NodeOffer>()) {
    ever_attached_ = true;
    told_down_ = false;
    handlers_.offered(*offer);
  } else if (frame.get<Refused>() != nullptr) {
    handlers_.refused();
  } else {
    handlers_.received(frame);
  }
}

// As DaemonLink::check_limits(): a refused connection is a daemon that is away, silence is a node
// that may be dead.
void SimDaemonLink::ended(Why why) {
  ++serial_;
  if (link_) std::exchange(link_, nullptr)->close(0);
  const TimePoint now = sim_.timeline.now();
  if (why == Why::Away) away_at_ = now;
  const Duration silent = now - (why == Why::Away ? last_heard_ : std::max(last_heard_, away_at_));
  Duration limit = why == Why::Away ? away_limit_ : dead_after_;
  if (sim_.mutant == Mutant::SuspectIsDead) limit = Duration{0};
  if (sim_.mutant == Mutant::VerdictIsEarly) limit = dead_after_ / 2;
  if (sim_.mutant == Mutant::SilenceIsPatience) limit = Duration::max();
  if (!told_down_ && silent >= limit) {
    told_down_ = true;
    handlers_.down(fmt::format("no news for {}", format_duration(silent)));
  }
  if (sim_.timeline.now() - began_ > redial_max_) redial_ = kFirstRedial;
  Duration pause = redial_;
  if (sim_.mutant == Mutant::WallClockInTimers)
    pause += milliseconds(sim_.plan.wall_us(node_.host().index, sim_.timeline.now()) % 7);
  redial_ = std::min<Duration>(redial_ * 2, redial_max_);
  sim_.after(pause, [this, serial = serial_] {
    if (!over_ && serial == serial_) dial();
  });
}

void SimDaemonLink::send(SimFrame frame) {
  if (link_) link_->send(0, std::move(frame));
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
