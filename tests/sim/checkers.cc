#include "tests/sim/checkers.h"

#include <algorithm>

namespace train::sim {

std::string_view to_string(Mutant mutant) {
  switch (mutant) {
    case Mutant::None:
      return "None";
    case Mutant::OffByOneRank:
      return "OffByOneRank";
    case Mutant::EpochNotChecked:
      return "EpochNotChecked";
    case Mutant::AckBeforeWrite:
      return "AckBeforeWrite";
    case Mutant::RestartBeforeGone:
      return "RestartBeforeGone";
    case Mutant::BudgetNotCounted:
      return "BudgetNotCounted";
    case Mutant::PartMissing:
      return "PartMissing";
    case Mutant::ReportsTakenTwice:
      return "ReportsTakenTwice";
    case Mutant::NothingSaidAgain:
      return "NothingSaidAgain";
    case Mutant::FramesPassOutOfStep:
      return "FramesPassOutOfStep";
    case Mutant::RestoresOldCheckpoint:
      return "RestoresOldCheckpoint";
  }
  return "?";
}

void Checkers::fail(std::string what) {
  if (violation_) return;
  timeline_.trace("VIOLATION: {}", what);
  violation_ = std::move(what);
}

// ---- workers

int Checkers::workers_alive() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const SimWorker* w) { return w->alive(); }));
}

// A worker of an older attempt may only be left where nobody could reach it; on the same node it
// has had its SIGKILL.
void Checkers::worker_started(SimWorker& worker) {
  const WorkerPlace& place = worker.place();
  for (const SimWorker* other : workers_) {
    if (!other->alive() || other->kill_sent() || other->place().attempt == place.attempt) continue;
    const bool out_of_reach =
        other->place().node != place.node && lost_nodes_.count(other->place().node) != 0;
    if (out_of_reach) continue;
    fail(fmt::format(
        "rank {} of attempt {} starts on node {} while rank {} of attempt {} lives on node {}",
        place.rank.value, place.attempt.value, place.node, other->place().rank.value,
        other->place().attempt.value, other->place().node));
  }
  auto& members = members_[place.attempt];
  if (!members.emplace(place.rank, &worker).second)
    fail(fmt::format("rank {} of attempt {} started twice", place.rank.value, place.attempt.value));
  if (place.rank.value < 0 || place.rank.value >= place.world_size)
    fail(fmt::format("rank {} of {}", place.rank.value, place.world_size));
  for (const auto& [rank, member] : members) {
    const WorkerPlace& peer = member->place();
    if (peer.world_size != place.world_size)
      fail("members of one attempt disagree on its world size");
    if (peer.node == place.node &&
        peer.rank.value - peer.local_rank != place.rank.value - place.local_rank)
      fail("local ranks of one node do not follow its ranks");
    if ((peer.node == place.node) != (peer.node_rank == place.node_rank))
      fail("node ranks and nodes do not go together");
  }
  if (place.local_rank < 0 || place.local_rank >= place.local_world_size)
    fail("a local rank outside of its node's world");
  const WorkerCount& count = plan_.spec.scaling_config.num_workers;
  if (place.world_size < count.min || place.world_size > count.max)
    fail(
        fmt::format("{} workers, {} to {} were asked for", place.world_size, count.min, count.max));
  workers_.push_back(&worker);
}

int Checkers::world_size(Attempt attempt) const {
  const auto found = members_.find(attempt);
  return found == members_.end() || found->second.empty()
             ? 0
             : found->second.begin()->second->place().world_size;
}

void Checkers::joined_barrier(const WorkerPlace& place, std::uint64_t sequence) {
  barriers_[place.attempt][sequence].insert(place.rank);
}

void Checkers::left_barrier(const WorkerPlace& place, std::uint64_t sequence,
                            const std::vector<std::string>& parts) {
  if (static_cast<int>(barriers_[place.attempt][sequence].size()) != place.world_size)
    fail("a barrier was left before all had joined");
  if (static_cast<int>(parts.size()) != place.world_size)
    return fail("a barrier's result does not have a part of each rank");
  for (int rank = 0; rank < place.world_size; ++rank) {
    if (parts[rank] != fmt::format("{}:{}", rank, sequence))
      fail(fmt::format("part {} of barrier {} is '{}'", rank, sequence, parts[rank]));
  }
}

void Checkers::left(const WorkerPlace& place, int code, bool asked) {
  if (code == 0 && !asked) left_well_[place.attempt].insert(place.rank);
}

// ---- reports

void Checkers::handed_over(Attempt attempt, Rank rank, std::uint64_t ordinal, int node) {
  handed_[{attempt, rank}] = ordinal;
  reporter_node_[{attempt, rank}] = node;
}

void Checkers::logged(Attempt attempt, Rank rank, std::uint64_t ordinal) {
  std::uint64_t& last = logged_[{attempt, rank}];
  if (ordinal != last + 1)
    fail(fmt::format("report {} of rank {} of attempt {} is written after {}", ordinal, rank.value,
                     attempt.value, last));
  last = ordinal;
}

void Checkers::acknowledged(Attempt attempt, Rank rank, std::uint64_t ordinal) {
  if (logged_[{attempt, rank}] < ordinal)
    fail(fmt::format("report {} of rank {} is acknowledged and not written", ordinal, rank.value));
}

// ---- checkpoints

void Checkers::committed(const Commit& commit, const CheckpointInfo& info) {
  std::set<Rank> ranks;
  for (const PartOfCheckpoint& part : commit.parts) {
    ranks.insert(part.rank);
    if (part.index != commit.index) fail("a checkpoint has parts of different indices");
    if (!part.error.empty() || stored_.count({commit.attempt, part.rank, part.index}) == 0)
      fail(fmt::format("a committed part of rank {} was never stored", part.rank.value));
  }
  if (static_cast<int>(ranks.size()) != world_size(commit.attempt) ||
      ranks.size() != commit.parts.size()) {
    fail(fmt::format("checkpoint {} has {} parts of {} ranks, the attempt has {}", info.number,
                     commit.parts.size(), ranks.size(), world_size(commit.attempt)));
  }
  std::uint64_t& index = committed_index_[commit.attempt];
  if (commit.index <= index) fail("checkpoints are committed out of order");
  index = commit.index;
  if (newest_ && info.number <= newest_->number) fail("a checkpoint's number was given twice");
  newest_ = info;
  restarts_without_progress_ = 0;
}

void Checkers::restored(const Start& start) {
  if (start.restore != newest_) {
    fail(fmt::format("attempt {} restores checkpoint {}, the newest is {}", start.attempt.value,
                     start.restore ? start.restore->number : 0, newest_ ? newest_->number : 0));
  }
}

// ---- daemons and the launcher

void Checkers::attached(std::uint64_t epoch, std::uint64_t held_by, bool holds) {
  if (holds && epoch < held_by)
    fail(fmt::format("a launcher of epoch {} took the lease from one of epoch {}", epoch, held_by));
}

void Checkers::acted(const RunAction& action) {
  if (ended_) return fail("the controller acts after the end of the run");
  if (const auto* ended = std::get_if<AttemptEnded>(&action)) attempt_ended(*ended);
  if (const auto* ended = std::get_if<RunEnded>(&action)) run_ended(*ended);
  if (const auto* start = std::get_if<Start>(&action)) restored(*start);
  if (const auto* pause = std::get_if<Pause>(&action)) paused(*pause);
  if (const auto* stop = std::get_if<StopGroup>(&action)) stopped(*stop);
  if (const auto* changed = std::get_if<StateChanged>(&action);
      changed != nullptr && changed->trigger == RunTrigger::RestartDecided) {
    ++restarts_without_progress_;
    const FailureConfig& failure = plan_.spec.run_config.failure_config;
    const bool unlimited =
        failure.max_failures == kUnlimited || failure.max_start_failures == kUnlimited;
    if (!unlimited &&
        restarts_without_progress_ > failure.max_failures + failure.max_start_failures) {
      fail(fmt::format("{} restarts without progress, {} and {} are allowed",
                       restarts_without_progress_, failure.max_failures,
                       failure.max_start_failures));
    }
  }
}

// Those that wait in report() when the end is announced all wait at the same one.
void Checkers::paused(const Pause& pause) {
  pausing_ = pause.attempt;
  if (pause.step != Pause::Step::Finish) return;
  for (const auto& [rank, worker] : members_[pause.attempt]) {
    if (!worker->alive() || worker->ordinal() == 0 || left_well_[pause.attempt].count(rank) != 0)
      continue;
    if (worker->ordinal() != pause.ordinal && crashed_.count(pause.attempt) == 0) {
      fail(fmt::format("rank {} is to end at report {}, the others at {}", rank.value,
                       worker->ordinal(), pause.ordinal));
    }
  }
}

// A stop that nothing disturbs needs no signal: the workers meet, and leave by themselves.
void Checkers::stopped(const StopGroup& stop) {
  const bool undisturbed = plan_.faults.empty() && plan_.stops.size() <= 1 &&
                           plan_.spawn_fails == 0 && plan_.habits.has_sdk;
  const bool time_enough = plan_.spec.run_config.failure_config.stop_grace >= seconds(5);
  if (undisturbed && time_enough && pausing_ == stop.attempt && stop.reason != "every rank ended")
    fail("a stop in good order ends by signals: " + stop.reason);
}

void Checkers::attempt_ended(const AttemptEnded& ended) {
  last_attempt_ = ended;
  for (const auto& [rank, worker] : members_[ended.attempt]) {
    const bool lost = lost_nodes_.count(worker->place().node) != 0 || worker->kill_sent();
    if (worker->alive() && !lost)
      fail(
          fmt::format("attempt {} ended while its rank {} lives", ended.attempt.value, rank.value));
  }
}

void Checkers::run_ended(const RunEnded& ended) {
  ended_ = ended;
  timeline_.trace("run ended: {} ({})", to_string(ended.outcome), ended.reason);
  const bool by_condition = ended.stop == StopKind::StopCondition;
  switch (ended.outcome) {
    case RunState::Stopped:
      if (!stop_asked_) fail("the run is stopped, and nobody asked");
      return;
    case RunState::Finished:
      if (by_condition) return;
      if (ended.stop) fail("a run that somebody stopped counts as finished");
      if (!last_attempt_) return fail("a run is finished that never ran");
      if (static_cast<int>(left_well_[last_attempt_->attempt].size()) !=
          world_size(last_attempt_->attempt)) {
        fail("the run is finished, but not every rank left by itself with 0");
      }
      return;
    case RunState::Errored:
      if (last_attempt_ && !last_attempt_->failed)
        fail("the run is in error after an attempt that ended well");
      return;
    default:
      return fail("the run ended in a state that is none of an end");
  }
}

void Checkers::run_over() {
  if (!ended_) fail("the run did not end");
  if (workers_alive() != 0) fail(fmt::format("{} workers outlive their run", workers_alive()));
  for (const auto& [key, ordinal] : handed_) {
    const auto& [attempt, rank] = key;
    const int node = reporter_node_[key];
    if (lost_nodes_.count(node) != 0 || lost_hosts_.count({attempt, node}) != 0) continue;
    if (logged_[key] != ordinal)
      fail(fmt::format("rank {} of attempt {} handed over {} reports, {} are written", rank.value,
                       attempt.value, ordinal, logged_[key]));
  }
}

}  // namespace train::sim
