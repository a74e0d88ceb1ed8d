#include "tests/sim/supervisor.h"

#include "tests/sim/checkers.h"

namespace train::sim {
namespace {

constexpr Duration kSocketMin = std::chrono::microseconds(20),
                   kSocketMax = std::chrono::microseconds(500);

}  // namespace

SimSupervisor::SimSupervisor(Timeline& timeline, Checkers& check, const Plan& plan, Mutant mutant,
                             int node, const SpawnSupervisor& spawned)
    : timeline_(timeline),
      check_(check),
      plan_(plan),
      mutant_(mutant),
      node_(node),
      key_(spawned.key),
      claimed_(spawned.message.per_worker),
      group_(seconds(30), milliseconds(spawned.orphan_timeout_ms), timeline.now()) {
  claimed_.cpu *= spawned.message.local_world_size;
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
                      feed(LauncherPresence{false});
                    }});
  send(SupervisorHello{key_.run_id, key_.attempt.value, 1, claimed_, {}, "sim"});
}

void SimSupervisor::send(Payload payload) {
  if (link_) link_->send(1, {key_.attempt, std::move(payload)});
}

void SimSupervisor::say(Payload payload) {
  lifecycle_.push_back(payload);
  send(std::move(payload));
}

void SimSupervisor::say_everything_again() {
  send(AttemptSnapshot{});
  if (mutant_ == Mutant::NothingSaidAgain) return;
  for (auto& [rank, seat] : seats_) {
    for (const auto& batch : seat.reports) send(batch);
    for (const auto& [index, part] : seat.parts) send(part);
    for (const auto& [sequence, join] : seat.collectives) send(join);
  }
  for (const Payload& payload : lifecycle_) send(payload);
}

void SimSupervisor::received(const SimFrame& frame) {
  if (const auto* state = std::get_if<LauncherState>(&frame.payload)) {
    group_.set_limits(milliseconds(prepare_ ? prepare_->stop_grace_ms : 30000),
                      milliseconds(state->orphan_timeout_ms));
    feed(LauncherPresence{state->present});
    if (state->present) say_everything_again();
  } else if (const auto* prepare = std::get_if<PrepareAttempt>(&frame.payload)) {
    on_prepare(*prepare);
  } else if (const auto* start = std::get_if<StartWorkers>(&frame.payload)) {
    on_start(*start);
  } else if (const auto* stop = std::get_if<StopWorkers>(&frame.payload)) {
    feed(GroupStop{milliseconds(stop->grace_ms), stop->reason});
  } else if (const auto* acks = std::get_if<AckReports>(&frame.payload)) {
    for (const ReportAck& ack : acks->acks) {
      const auto seat = seats_.find(Rank{ack.rank});
      if (seat == seats_.end()) continue;
      check_.acknowledged(key_.attempt, Rank{ack.rank}, ack.ordinal);
      auto& reports = seat->second.reports;
      while (!reports.empty() && reports.front().first_ordinal <= ack.ordinal) reports.pop_front();
    }
  } else if (const auto* outcome = std::get_if<CheckpointOutcome>(&frame.payload)) {
    for (auto& [rank, seat] : seats_) seat.parts.erase(outcome->index);
    to_workers(frame);
  } else if (const auto* result = std::get_if<CollectiveResult>(&frame.payload)) {
    for (auto& [rank, seat] : seats_) seat.collectives.erase(result->sequence);
    to_workers(frame);
  } else if (std::holds_alternative<PauseWorkers>(frame.payload)) {
    to_workers(frame);
  } else if (std::holds_alternative<ReleaseAttempt>(frame.payload)) {
    feed(GroupRelease{});
  }
}

void SimSupervisor::to_workers(const SimFrame& frame) {
  for (auto& [rank, link] : worker_links_) link->send(1, frame);
}

void SimSupervisor::on_prepare(const PrepareAttempt& message) {
  if (prepare_) return;
  prepare_ = message;
  group_.set_limits(milliseconds(message.stop_grace_ms), Duration{-1});
  say(Prepared{message.node_rank, message.bind_master ? 41000u : 0u, 1, ""});
}

void SimSupervisor::on_start(const StartWorkers& message) {
  if (start_) return;
  start_ = message;
  GroupStart group;
  for (const WorkerPlan& plan : message.workers) {
    seats_[Rank{plan.rank}].plan = plan;
    group.ranks.push_back(Rank{plan.rank});
  }
  feed(group);
}

void SimSupervisor::feed(const GroupEvent& event) {
  for (const GroupAction& action : group_.handle(event, timeline_.now())) perform(action);
  arm();
}

void SimSupervisor::arm() {
  const auto deadline = group_.next_deadline();
  if (!deadline || *deadline == armed_) return;
  armed_ = *deadline;
  timeline_.after(std::max(Duration{0}, *deadline - timeline_.now()), [this, at = *deadline] {
    if (!alive_ || armed_ != at) return;
    armed_ = {};
    feed(GroupTick{});
  });
}

void SimSupervisor::perform(const GroupAction& action) {
  if (const auto* spawned = std::get_if<SpawnWorker>(&action)) {
    timeline_.after(timeline_.random.between(Duration{0}, milliseconds(3)),
                    [this, rank = spawned->rank] {
                      if (alive_) spawn(rank);
                    });
  } else if (const auto* signal = std::get_if<SignalWorker>(&action)) {
    if (SimWorker* worker = seats_.at(signal->rank).worker) worker->signal(signal->signal);
  } else if (const auto* started = std::get_if<TellStarted>(&action)) {
    WorkersStarted message;
    for (const auto& [rank, pid] : started->pids) message.workers.push_back({rank.value, pid});
    say(message);
  } else if (const auto* failed = std::get_if<TellStartFailed>(&action)) {
    say(StartFailed{failed->rank.value, std::string(to_string(failed->error.code)),
                    failed->error.message, ""});
  } else if (const auto* exited = std::get_if<TellExited>(&action)) {
    exits_[exited->rank] = *exited;
  } else if (std::holds_alternative<TellGone>(action)) {
    say(GroupGone{});
  } else if (const auto* end_asked = std::get_if<EndSupervisor>(&action)) {
    if (end_asked->reason != "released")
      check_.supervisor_gave_up(key_.attempt, node_);  // what no launcher has taken is lost
    timeline_.after(timeline_.random.between(Duration{0}, milliseconds(2)), [this] {
      if (alive_) end();
    });
  }
}

void SimSupervisor::spawn(Rank rank) {
  if (plan_.command_missing)
    return feed(WorkerSpawnFailed{rank, Error{Errc::NotFound, "./train does not exist"}});
  const bool faults_go_on = timeline_.now().time_since_epoch() < seconds(1) + plan_.faults_end;
  if (faults_go_on && timeline_.random.chance(plan_.spawn_fails)) {
    return feed(WorkerSpawnFailed{rank, Error{Errc::ResourceExhausted, "fork: out of memory"}});
  }
  Seat& seat = seats_.at(rank);
  const WorkerPlace place{.node = node_,
                          .attempt = key_.attempt,
                          .rank = rank,
                          .local_rank = seat.plan.local_rank,
                          .local_world_size = static_cast<int>(start_->workers.size()),
                          .world_size = start_->world_size,
                          .node_rank = start_->node_rank};
  workers_.push_back(std::make_unique<SimWorker>(
      timeline_, check_, plan_, place, std::max<std::int64_t>(0, start_->restored_epoch)));
  SimWorker* worker = seat.worker = workers_.back().get();
  check_.worker_started(*worker);
  timeline_.trace("node {} attempt {} rank {} started", node_, key_.attempt.value, rank.value);
  auto link = std::make_shared<SimLink>(timeline_, kSocketMin, kSocketMax);
  link->set_end(1, {[this, rank](const SimFrame& frame) {
                      if (alive_) from_worker(rank, frame);
                    },
                    [this, rank] {
                      if (!alive_) return;
                      seats_.at(rank).connected = false;
                      drain_when_over(rank);
                    }});
  seat.connected = true;
  worker_links_[rank] = link;
  worker->start(std::move(link), [this, rank](WaitStatus status) {
    if (alive_) reaped(rank, status);
  });
  feed(WorkerSpawned{rank, 1000 + rank.value});
}

void SimSupervisor::from_worker(Rank rank, const SimFrame& frame) {
  Seat& seat = seats_.at(rank);
  if (const auto* batch = std::get_if<ReportBatch>(&frame.payload)) {
    seat.reports.push_back(*batch);
    seat.last_ordinal = batch->first_ordinal + batch->count - 1;
    check_.handed_over(key_.attempt, rank, seat.last_ordinal, node_);
    send(*batch);
  } else if (const auto* staged = std::get_if<CheckpointStaged>(&frame.payload)) {
    PartWritten part;
    part.rank = rank.value;
    part.index = staged->index;
    part.report_ordinal = staged->report_ordinal;
    part.metadata_json = staged->metadata_json;
    part.error = staged->error;
    if (!part.error.empty())
      return part_stored(rank, part);  // overtakes those that are being stored
    ++seat.staging;
    disk_free_ = std::max(disk_free_, timeline_.now()) +
                 timeline_.random.between(milliseconds(1), milliseconds(60));
    timeline_.after(disk_free_ - timeline_.now(), [this, rank, part] {
      if (!alive_) return;
      --seats_.at(rank).staging;
      part_stored(rank, part);
      drain_when_over(rank);
    });
  } else if (const auto* join = std::get_if<CollectiveJoin>(&frame.payload)) {
    seat.collectives[join->sequence] = *join;
    send(*join);
  } else if (std::holds_alternative<WorkerPaused>(frame.payload) ||
             std::holds_alternative<WorkerJoined>(frame.payload)) {
    say(frame.payload);
  }
}

void SimSupervisor::part_stored(Rank rank, PartWritten part) {
  if (part.error.empty()) check_.stored(key_.attempt, rank, part.index);
  seats_.at(rank).parts[part.index] = part;
  send(part);
}

// The news of a death waits a little for its last lines of output.
void SimSupervisor::reaped(Rank rank, WaitStatus status) {
  feed(WorkerReaped{rank, status});
  timeline_.after(timeline_.random.between(Duration{0}, milliseconds(20)), [this, rank] {
    if (!alive_) return;
    if (const auto exit = exits_.find(rank); exit != exits_.end()) {
      WorkerExited message;
      message.rank = rank.value;
      message.signaled = exit->second.status.signaled;
      message.status = exit->second.status.status;
      message.stop_requested = exit->second.stop_requested;
      message.last_ordinal = seats_.at(rank).last_ordinal;
      say(message);
    }
    seats_.at(rank).worker = nullptr;
    drain_when_over(rank);
  });
}

void SimSupervisor::drain_when_over(Rank rank) {
  const Seat& seat = seats_.at(rank);
  if (seat.worker == nullptr && !seat.connected && seat.staging == 0) feed(WorkerDrained{rank});
}

void SimSupervisor::crash() {
  timeline_.trace("node {} attempt {} supervisor killed", node_, key_.attempt.value);
  check_.supervisor_gave_up(key_.attempt, node_);
  for (auto& worker : workers_) {
    if (worker->alive()) worker->orphaned();
  }
  end();
}

void SimSupervisor::end() {
  alive_ = false;
  timeline_.trace("node {} attempt {} supervisor ended", node_, key_.attempt.value);
  if (link_) link_->close(1);
  for (auto& [rank, link] : worker_links_) link->close(1);
  timeline_.after(timeline_.random.between(Duration{0}, milliseconds(2)), [this] {
    if (on_exit_) on_exit_();
  });
}

}  // namespace train::sim
