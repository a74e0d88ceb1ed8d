#include "tests/sim/supervisor.h"

#include <algorithm>
#include <csignal>

#include "daemon/supervisor/checkpoints/shard_result.h"
#include "daemon/supervisor/group_messages.h"
#include "lib/base/overloaded.h"
#include "lib/model/checkpoint_order.h"

namespace train::sim {

SimSupervisor::SimSupervisor(Sim& sim, SimHost& host, const SpawnSupervisor& spawned)
    : sim_(sim),
      host_(host),
      key_(spawned.key),
      group_(seconds(30), milliseconds(spawned.orphan_timeout_ms), sim.timeline.now()),
      orphan_timeout_(milliseconds(spawned.orphan_timeout_ms)),
      absent_since_(sim.timeline.now()),
      ingest_(sim, host, spawned.key.attempt, [this](SimFrame what) { send(std::move(what)); }) {
  sim_.check.supervisor_started();
  arm();
}

void SimSupervisor::attach(LinkPtr link) {
  if (link_) link_->close(1);
  link_ = link;
  link->set_end(1, {[this](const SimFrame& frame) {
                      if (alive_) received(frame);
                    },
                    [this, raw = link.get()] {
                      if (!alive_ || link_.get() != raw) return;
                      link_.reset();
                      set_presence(false);
                    }});
  const PrepareAttempt granted = prepare_.value_or(PrepareAttempt{});
  send(frame(SupervisorHello{key_.run_id, key_.attempt.value, 1, granted.claimed, granted.gpus,
                             "sim", generation_, granted.standby}));
}

void SimSupervisor::send(SimFrame frame) {
  if (link_) link_->send(1, std::move(frame));
}

void SimSupervisor::say(SimFrame frame) {
  lifecycle_.push_back(frame);
  send(std::move(frame));
}

void SimSupervisor::say_everything_again() {
  AttemptSnapshot snapshot =
      snapshot_of(group_, prepare_.has_value(), 0, resolved_checkpoint_, checkpoint_request_,
                  [this](Rank rank) {
                    const Seat& seat = seats_.at(rank);
                    return LivingWorker{.joined = seat.joined && seat.connected,
                                        .reported = seat.last_report_seq};
                  });
  snapshot.ingest = ingest_.places();
  snapshot.roster_version = roster_version_;
  send(frame(snapshot));
  if (sim_.mutant == Mutant::NothingSaidAgain) return;
  for (auto& [rank, seat] : seats_) {
    for (const auto& [report_seq, batch] : seat.reports) send(batch);
    for (const auto& [index, shard] : seat.shards) send(shard);
    for (const auto& [sequence, join] : seat.collectives) send(join);
  }
  for (const auto& answered : answered_.from_before(generation_))
    send(frame(CollectiveAnswered{*answered}));
  for (const SimFrame& frame : lifecycle_) send(frame);
  if (validated_) send(frame(*validated_));
}

// S2: a supervisor that no launcher has reached for the orphan timeout stops its workers, but for
// those that nothing ends.
void SimSupervisor::expect_no_orphans() {
  const TimePoint since = *absent_since_;
  sim_.after(orphan_timeout_ + stop_grace_ + seconds(2), [this, since] {
    if (!alive_ || absent_since_ != since || host_.slow > 1) return;
    for (const auto& worker : workers_) {
      if (worker->alive() && !worker->in_kernel())
        return sim_.check.fail("S2", "a worker lives on without a launcher, past its time");
    }
  });
}

void SimSupervisor::set_presence(bool present) {
  if (present)
    absent_since_.reset();
  else if (!absent_since_) {
    absent_since_ = sim_.timeline.now();
    if (!workers_.empty()) expect_no_orphans();
  }
  feed(LauncherPresence{present});
}

void SimSupervisor::received(const SimFrame& frame) {
  if (const auto* state = frame.get<LauncherState>()) {
    generation_ = std::max(generation_, state->generation);
    stop_grace_ = milliseconds(prepare_ ? prepare_->stop_grace_ms : 30000);
    if (state->orphan_timeout_ms >= 0) orphan_timeout_ = milliseconds(state->orphan_timeout_ms);
    group_.set_limits(stop_grace_, milliseconds(state->orphan_timeout_ms));
    set_presence(state->present);
    if (state->present) say_everything_again();
  } else if (const auto* prepare = frame.get<PrepareAttempt>()) {
    on_prepare(*prepare);
  } else if (const auto* start = frame.get<StartWorkers>()) {
    on_start(*start);
  } else if (const auto* stop = frame.get<StopWorkers>()) {
    feed(to_event(*stop));
  } else if (const auto* acks = frame.get<AckReports>()) {
    on_acks(*acks);
  } else if (const auto* outcome = frame.get<CheckpointOutcome>()) {
    resolved_checkpoint_ = std::max(resolved_checkpoint_, outcome->checkpoint_seq);
    for (auto& [rank, seat] : seats_) seat.shards.erase(outcome->checkpoint_seq);
    to_workers(frame);
  } else if (const auto* result = frame.get<CollectiveResult>()) {
    for (auto& [rank, seat] : seats_) seat.collectives.erase(result->sequence);
    answered_.add(generation_, {frame.message, result});
    to_workers(frame);
  } else if (frame.get<PauseWorkers>() != nullptr) {
    pause_ = frame;
    for (auto& [rank, seat] : seats_) {
      if (!seat.joined || !seat.ranks.trains()) continue;
      pause_passed_on(seat);
      seat.link->send(1, frame);
    }
  } else if (const auto* request = frame.get<RequestCheckpoint>()) {
    request_checkpoint(*request, frame);
  } else if (const auto* order = frame.get<RunValidation>()) {
    if (start_) on_validate(*order);
  } else if (const auto* keep = frame.get<StartIngest>()) {
    if (start_ && group_.phase() != GroupPhase::Gone) ingest_.start(*keep);
  } else if (const auto* end = frame.get<StopIngest>()) {
    ingest_.stop(*end);
  } else if (frame.get<TellIngestRoster>() != nullptr) {
    on_roster(frame);
  } else if (frame.get<ReleaseAttempt>() != nullptr) {
    feed(GroupRelease{});
  }
}

void SimSupervisor::on_roster(const SimFrame& frame) {
  const std::uint64_t version = frame.get<TellIngestRoster>()->version;
  if (version <= roster_version_) return;
  roster_version_ = version;
  roster_ = frame;
  to_workers(frame);
}

void SimSupervisor::to_workers(const SimFrame& frame) {
  for (auto& [rank, seat] : seats_) {
    if (seat.joined) seat.link->send(1, frame);
  }
}

void SimSupervisor::request_checkpoint(const RequestCheckpoint& order, const SimFrame& frame) {
  if (order.request < checkpoint_request_.request) return;
  checkpoint_request_ = order;
  for (auto& [rank, seat] : seats_) {
    if (!seat.ranks.trains()) continue;
    if (seat.joined && seat.connected && !seat.said_goodbye)
      seat.link->send(1, frame);
    else
      cannot_be_asked(rank);
  }
}

void SimSupervisor::cannot_be_asked(Rank rank) {
  if (checkpoint_request_.step != to_string(CheckpointStep::Ask)) return;
  send(frame(CheckpointPosition{
      .rank = rank.value, .request = checkpoint_request_.request, .error = "it is not there"}));
}

void SimSupervisor::on_prepare(const PrepareAttempt& message) {
  if (prepare_ && !(prepare_->standby && !message.standby)) return;
  prepare_ = message;
  stop_grace_ = milliseconds(message.stop_grace_ms);
  group_.set_limits(stop_grace_, Duration{-1});
  if (message.standby) return;
  Prepared prepared{message.node_rank, message.bind_master ? 41000u : 0u, 1, ""};
  for (std::int32_t port = 0; port < message.ports_per_worker * message.local_world_size; ++port)
    prepared.ports.push_back(42000u + static_cast<std::uint32_t>(port));
  say(frame(prepared));
}

void SimSupervisor::on_start(const StartWorkers& message) {
  if (start_) return;
  if (message.standby > 0) {
    if (standbys_ == 0 && prepare_) standbys_ = message.standby;
    return;
  }
  start_ = message;
  for (const WorkerRanks& worker : message.workers) {
    Seat& seat = seats_[Rank{worker.rank}];
    seat.ranks = worker;
    if (!worker.trains()) continue;
    const bool waits = standbys_ > 0 && sim_.timeline.random.chance(0.9);  // else it has died
    if (standbys_ > 0) --standbys_;
    seat.from_standby = waits;
  }
  feed(to_event(message));
  if (sim_.plan.judges_hangs()) sample_later();
  if (sim_.plan.has_ingest()) sample_datasets_later();
}

void SimSupervisor::sample_later() {
  sim_.after(seconds(1), [this] {
    if (!alive_ || sim_.mutant == Mutant::SamplesForgotten) return;
    WorkerSamples samples;
    for (const auto& [rank, seat] : seats_) {
      if (seat.worker != nullptr && seat.worker->alive() && seat.pid != 0)
        samples.ranks.push_back(seat.worker->sample());
    }
    if (!absent_since_ && !samples.ranks.empty()) send(frame(std::move(samples)));
    sample_later();
  });
}

void SimSupervisor::sample_datasets_later() {
  sim_.after(seconds(1), [this] {
    if (!alive_) return;
    ranks_waited_ += milliseconds(sim_.plan.ingest_busy(sim_.timeline.now()) ? 300 : 1);
    using std::chrono::duration_cast, std::chrono::microseconds;
    DataSamples samples;
    samples.taken_us = duration_cast<microseconds>(sim_.timeline.now().time_since_epoch()).count();
    for (const auto& [rank, seat] : seats_) {
      if (seat.worker == nullptr || !seat.worker->alive()) continue;
      DataOperator loop{.dataset = "train", .kind = OperatorKind::Loop};
      loop.input_us = duration_cast<microseconds>(ranks_waited_).count();
      samples.ranks.push_back({.rank = rank, .operators = {std::move(loop)}});
    }
    if (!absent_since_ && !samples.ranks.empty()) {
      send(frame(std::move(samples)));
      ingest_.sample();
    }
    sample_datasets_later();
  });
}

void SimSupervisor::on_acks(const AckReports& message) {
  for (const ReportAck& ack : message.acks) {
    const auto found = seats_.find(Rank{ack.rank});
    if (found == seats_.end()) continue;
    Seat& seat = found->second;
    sim_.check.acknowledged(key_.attempt, Rank{ack.rank}, ack.report_seq);
    std::erase_if(seat.reports, [&](const auto& batch) { return batch.first <= ack.report_seq; });
    if (seat.link) seat.link->send(1, frame(AckReports{{ack}}));
  }
}

// Does what daemon/supervisor/processes/validation_runner does.
void SimSupervisor::on_validate(const RunValidation& order) {
  if (validating_ == order.checkpoint) return;
  if (!validating_ && validated_ && validated_->checkpoint == order.checkpoint)
    return send(frame(*validated_));
  validating_ = order.checkpoint;
  validated_.reset();
  const Duration takes = sim_.between(milliseconds(1), seconds(1));
  sim_.after(takes * host_.slow, [this, number = order.checkpoint] {
    if (!alive_ || validating_ != number) return;
    validating_.reset();
    validated_ = ValidationEnded{.checkpoint = number, .status = "validated"};
    send(frame(*validated_));
  });
}

void SimSupervisor::feed(const GroupEvent& event) {
  for (const GroupAction& action : group_.handle(event, sim_.timeline.now())) perform(action);
  arm();
}

void SimSupervisor::arm() {
  const auto deadline = group_.next_deadline();
  if (!deadline || *deadline == armed_) return;
  armed_ = *deadline;
  if (sim_.mutant == Mutant::OrphansForgotten && absent_since_) return;
  sim_.after(std::max(Duration{0}, *deadline - sim_.timeline.now()), [this, at = *deadline] {
    if (!alive_ || armed_ != at) return;
    armed_ = {};
    feed(GroupTick{});
  });
}

void SimSupervisor::perform(const GroupAction& action) {
  std::visit(
      Overloaded{[&](const SpawnWorker& spawned) {
                   const bool at_once = seats_.at(spawned.rank).from_standby;
                   const Duration takes =
                       at_once ? Duration{0} : sim_.between(Duration{0}, milliseconds(3));
                   sim_.after(takes * host_.slow, [this, rank = spawned.rank] {
                     if (alive_) spawn(rank);
                   });
                 },
                 [&](const SignalWorker& wanted) { signal(wanted); },
                 [](const ReapRankLeftovers&) {},  // a simulated worker leaves nothing behind
                 [&](const TellStarted& started) {
                   const auto waited = std::count_if(
                       started.pids.begin(), started.pids.end(),
                       [this](const auto& worker) { return seats_.at(worker.first).from_standby; });
                   say(frame(message_of(started, static_cast<std::int32_t>(waited))));
                 },
                 [&](const TellStartFailed& failed) { say(frame(message_of(failed))); },
                 [&](const TellExited& exited) { exits_[exited.rank] = exited; },
                 [&](const TellGone&) {
                   ingest_.end();
                   say(frame(GroupGone{}));
                 },
                 [](const EndThoseThatStay&) {},  // no simulated run keeps its workers
                 [](const KeepWorkers&) {},
                 [&](const EndSupervisor& over) {
                   if (over.reason != "released")
                     sim_.check.supervisor_gave_up(key_.attempt,
                                                   host_.index);  // what nobody has taken is lost
                   sim_.after(sim_.between(Duration{0}, milliseconds(2)),
                              [this, released = over.reason == "released"] {
                                if (alive_) end(released);
                              });
                 }},
      action);
}

void SimSupervisor::signal(const SignalWorker& wanted) {
  const Seat& seat = seats_.at(wanted.rank);
  if (sim_.mutant == Mutant::KillNotSent && wanted.signal == SIGKILL) return;
  SimWorker* hit = host_.process(seat.pid);
  if (hit == nullptr) return;
  if (absent_since_) sim_.check.orphaned(key_.attempt);
  sim_.check.signalled(location_of(wanted.rank), hit);
  hit->signal(wanted.signal);
}

// ---- workers

WorkerLocation SimSupervisor::location_of(Rank rank) const {
  const WorkerRanks& ranks = seats_.at(rank).ranks;
  return {.node = host_.index,
          .attempt = key_.attempt,
          .ranks = ranks.trains() ? ranks.in_role() : ranks};
}

void SimSupervisor::spawn(Rank rank) {
  const Plan& plan = sim_.plan;
  if (plan.command_missing)
    return feed(WorkerSpawnFailed{rank, Error{Errc::NotFound, "./train does not exist"}});
  Seat& seat = seats_.at(rank);
  if (!seat.from_standby && sim_.faults_go_on() && sim_.timeline.random.chance(plan.spawn_fails))
    return feed(WorkerSpawnFailed{rank, Error{Errc::ResourceExhausted, "fork: out of memory"}});
  workers_.push_back(std::make_unique<SimWorker>(sim_, host_, location_of(rank), start_->run));
  SimWorker* worker = seat.worker = workers_.back().get();
  sim_.check.worker_started(*worker);
  if (worker->location().ranks.trains()) sim_.check.begins_from(worker->location(), start_->run);
  sim_.timeline.trace("node {} attempt {} rank {} started", host_.index, key_.attempt.value,
                      rank.value);
  seat.link = std::make_shared<SimLink>(sim_.timeline, host_.local);
  seat.link->set_end(1, {[this, rank](const SimFrame& frame) {
                           if (alive_) from_worker(rank, frame);
                         },
                         [this, rank] {
                           if (!alive_) return;
                           seats_.at(rank).connected = false;
                           cannot_be_asked(rank);
                           advance_ending(rank);
                         }});
  seat.connected = true;
  worker->start(seat.link, [this, rank](const SimEnd& end) {
    if (alive_) reaped(rank, end);
  });
  seat.pid = worker->pid();
  feed(WorkerSpawned{rank, seat.pid});
}

void SimSupervisor::from_worker(Rank rank, const SimFrame& frame) {
  Seat& seat = seats_.at(rank);
  if (const auto* batch = frame.get<ReportBatch>()) {
    seat.last_report_seq = batch->first_report_seq + batch->count - 1;
    seat.reports.emplace_back(seat.last_report_seq, frame);
    sim_.check.handed_over(location_of(rank), seat.last_report_seq, seat.reports.size());
    send(frame);
  } else if (const auto* staged = frame.get<CheckpointStaged>()) {
    store(rank, *staged);
  } else if (const auto* join = frame.get<CollectiveJoin>()) {
    seat.collectives[join->sequence] = frame;
    send(frame);
  } else if (frame.get<WorkerJoined>() != nullptr) {
    seat.joined = true;
    if (pause_ && seat.ranks.trains()) {
      pause_passed_on(seat);
      seat.link->send(1, *pause_);
    }
    if (roster_ && sim_.mutant != Mutant::RosterNotRepeated) seat.link->send(1, *roster_);
    say(frame);
  } else if (const auto* goodbye = frame.get<WorkerGoodbye>()) {
    seat.said_goodbye = true;
    seat.told_to_stop |= goodbye->told_to_stop;
    cannot_be_asked(rank);
  } else if (frame.get<WorkerPaused>() != nullptr) {
    say(frame);
  } else if (frame.get<CheckpointPosition>() != nullptr) {
    send(frame);
  }
}

// Does what pause_passed_on() of daemon/supervisor/workers/worker_slot.cc does.
void SimSupervisor::pause_passed_on(Seat& seat) const {
  const bool finish = pause_->get<PauseWorkers>()->step == to_string(PauseStep::Finish);
  if (finish && !seat.said_goodbye) seat.told_to_stop = true;
}

// Store and sync one shard at a time. A shard that has failed already overtakes the others.
void SimSupervisor::store(Rank rank, const CheckpointStaged& staged) {
  ShardWritten shard = shard_of(rank, staged);
  if (!shard.error.empty()) return shard_stored(rank, shard);
  ++seats_.at(rank).staging;
  Duration takes =
      sim_.between(milliseconds(1), milliseconds(60)) + sim_.between(Duration{0}, sim_.disk_extra);
  if (sim_.unlucky(Site::StoredOutOfTurn)) takes += sim_.between(Duration{0}, seconds(2));
  disk_free_ = std::max(disk_free_, sim_.timeline.now()) + takes * host_.slow;
  sim_.after(disk_free_ - sim_.timeline.now(), [this, rank, shard]() mutable {
    if (!alive_) return;
    --seats_.at(rank).staging;
    if (sim_.disk_full) set_error(shard, Error{Errc::NoSpace, "no space left on device"});
    shard_stored(rank, shard);
    advance_ending(rank);
  });
}

void SimSupervisor::shard_stored(Rank rank, const ShardWritten& shard) {
  if (shard.error.empty()) sim_.check.stored(key_.attempt, rank, shard.checkpoint_seq);
  const SimFrame said = frame(shard);
  seats_.at(rank).shards[shard.checkpoint_seq] = said;
  send(said);
}

void SimSupervisor::reaped(Rank rank, const SimEnd& end) {
  Seat& seat = seats_.at(rank);
  host_.remove_process(seat.pid);
  seat.pid = 0;
  feed(WorkerReaped{rank, end.status});
  seat.end = end;
  seat.ending.emplace(sim_.timeline.now());
  Duration takes = sim_.between(Duration{0}, milliseconds(20));
  if (sim_.unlucky(Site::OutputKeptOpen)) takes += sim_.between(Duration{0}, seconds(4));
  sim_.after(takes, [this, rank] {
    if (!alive_) return;
    seats_.at(rank).output_ended = true;
    advance_ending(rank);
  });
  advance_ending(rank);
}

void SimSupervisor::tell_exit(Rank rank) {
  Seat& seat = seats_.at(rank);
  seat.worker = nullptr;
  const auto exit = exits_.find(rank);
  if (exit == exits_.end()) return;
  WorkerExited message;
  message.rank = rank.value;
  const std::chrono::system_clock::time_point wall{
      std::chrono::microseconds(sim_.plan.wall_us(host_.index, sim_.timeline.now()))};
  message.end = end_of(exit->second, wall, seat.last_report_seq);
  message.end.oom_killed = seat.end.out_of_memory;
  message.end.told_to_stop = seat.told_to_stop && sim_.mutant != Mutant::LeavesAreEnds;
  say(frame(message));
}

void SimSupervisor::advance_ending(Rank rank) {
  Seat& seat = seats_.at(rank);
  while (seat.ending) {
    const TimePoint now = sim_.timeline.now();
    const WorkerEnding::Rest rest{seat.output_ended, seat.connected, seat.staging > 0};
    switch (seat.ending->advance(rest, now)) {
      case WorkerEnding::Next::TellEnd:
        tell_exit(rank);
        break;
      case WorkerEnding::Next::Drained:
        seat.ending.reset();
        return feed(WorkerDrained{rank});
      case WorkerEnding::Next::Wait:
        if (const auto at = seat.ending->next_deadline(rest, now))
          sim_.after(*at - now, [this, rank] {
            if (alive_) advance_ending(rank);
          });
        return;
    }
  }
}

// ---- the end

void SimSupervisor::crash() {
  sim_.timeline.trace("node {} attempt {} supervisor killed", host_.index, key_.attempt.value);
  sim_.check.supervisor_gave_up(key_.attempt, host_.index);
  for (auto& worker : workers_) {
    if (worker->alive()) worker->orphaned();
  }
  end(false);
}

void SimSupervisor::vanish() {
  if (!alive_) return;
  alive_ = false;
  ingest_.end();
  sim_.check.supervisor_ended();
  sim_.check.supervisor_gave_up(key_.attempt, host_.index);
  for (auto& worker : workers_) worker->vanish();
  if (link_) link_->forget();
  link_.reset();
  for (auto& [rank, seat] : seats_) {
    if (seat.link) seat.link->forget();
  }
}

void SimSupervisor::end(bool released) {
  alive_ = false;
  ingest_.end();
  sim_.check.supervisor_ended();
  sim_.timeline.trace("node {} attempt {} supervisor ended", host_.index, key_.attempt.value);
  for (auto& [rank, seat] : seats_) {
    if (released) sim_.check.released(location_of(rank), seat.last_report_seq, seat.reports.size());
  }
  if (link_) link_->close(1);
  for (auto& [rank, seat] : seats_) {
    if (seat.link) seat.link->close(1);
  }
  sim_.after(sim_.between(Duration{0}, milliseconds(2)), [this] {
    if (on_exit_) on_exit_();
  });
}

}  // namespace train::sim
