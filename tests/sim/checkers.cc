#include "tests/sim/checkers.h"

#include <algorithm>

#include "launcher/core/stuck_workers.h"

namespace train::sim {
namespace {

// L3: from a death to the launcher's decision, including the last lines and the frame's way.
constexpr Duration kDeathKnownWithin = seconds(2);
constexpr std::size_t kLinksOfNodeMax =
    12;  // S12: old links end by silence, a few of them together
constexpr std::size_t kPendingPerRank = 64, kPendingFree = 4096;  // S12: events in flight

}  // namespace

Checkers::Checkers(Timeline& timeline, const Plan& plan)
    : timeline_(timeline), plan_(plan), live_on_node_(plan.nodes) {
  const double claim = plan.spec.scaling_config.resources_per_worker.cpu;
  quick_links_ = std::all_of(plan.links.begin(), plan.links.end(), [](const LinkHabits& link) {
    return link.delay_max <= milliseconds(20) && link.loss == 0;
  });
  slots_per_node_ = static_cast<int>(plan.cpus_per_node / claim + 1e-6);
}

void Checkers::fail(std::string_view id, std::string what) {
  if (violation_) return;
  violation_ = fmt::format("{}: {}", id, what);
  timeline_.trace("VIOLATION of {}", *violation_);
}

Checkers::AttemptView& Checkers::view(Attempt attempt) {
  if (last_view_ == nullptr || last_viewed_ != attempt) {
    last_view_ = &attempts_[attempt];
    last_viewed_ = attempt;
  }
  return *last_view_;
}

// ---- workers

void Checkers::worker_started(SimWorker& worker) {
  const WorkerLocation& location = worker.location();
  check_alone(location);
  AttemptView& attempt = view(location.attempt);
  if (!location.ranks.trains()) return other_started(attempt, location);
  check_location(attempt, location);
  if (violation_) return;
  attempt.members[location.rank().value] = &worker;
  ++attempt.started;
  attempt.live.insert(location.rank());
  ++alive_;
  if (++live_on_node_[location.node] > slots_per_node_)
    fail("S2", fmt::format("{} workers live on node {}, which has room for {}",
                           live_on_node_[location.node], location.node, slots_per_node_));
}

// S3: workers of other roles have the ranks behind those that train, once each.
void Checkers::other_started(AttemptView& attempt, const WorkerLocation& location) {
  const WorkerRanks& ranks = location.ranks;
  int training = ranks.world_size;
  for (const RoleSpec& role : plan_.spec.scaling_config.other_roles) training -= role.workers;
  const WorkerCount& count = plan_.spec.scaling_config.num_workers;
  if (training < count.min || training > count.max || ranks.rank < training ||
      ranks.rank >= ranks.world_size)
    return fail("S3", fmt::format("rank {} of {} has role {}, {} train", ranks.rank,
                                  ranks.world_size, ranks.role, training));
  if (!attempt.others.insert(location.rank()).second)
    return fail("S3", fmt::format("rank {} of attempt {} started twice", location.rank().value,
                                  location.attempt.value));
  attempt.live_others.emplace(location.rank(), location);
  ++alive_;
  ++others_alive_;
}

// S2: a slot of a node has at most one live worker tree. A worker of an older attempt may live on
// or begin only out of the launcher's reach; on the same node, SIGKILL must have been sent to it.
void Checkers::check_alone(const WorkerLocation& location) {
  for (const auto& [id, attempt] : attempts_) {
    if (id == location.attempt) continue;
    std::map<Rank, WorkerLocation> living = attempt.live_others;
    for (const Rank rank : attempt.live)
      living.emplace(rank, attempt.members[rank.value]->location());
    for (const auto& [rank, other] : living) {
      const bool out_of_reach =
          lost_hosts_.contains({id, other.node}) ||
          (location.attempt < id && lost_hosts_.contains({location.attempt, location.node}));
      if (other.node != location.node && out_of_reach) continue;
      fail("S2", fmt::format("rank {} of attempt {} starts on node {} while rank {} of attempt {} "
                             "lives on node {}",
                             location.rank().value, location.attempt.value, location.node,
                             rank.value, id.value, other.node));
    }
  }
}

// S3: an attempt has the ranks 0..n-1 once each, and each node the local ranks 0..k-1. All workers
// agree on n, which is within the requested range.
void Checkers::check_location(AttemptView& attempt, const WorkerLocation& location) {
  if (attempt.members.empty()) {
    attempt.world_size = location.ranks.world_size;
    attempt.members.resize(location.ranks.world_size);
    attempt.has_left_well.resize(location.ranks.world_size);
    const WorkerCount& count = plan_.spec.scaling_config.num_workers;
    if (location.ranks.world_size < count.min || location.ranks.world_size > count.max)
      fail("S3", fmt::format("{} workers, {} to {} were asked for", location.ranks.world_size,
                             count.min, count.max));
  }
  if (location.ranks.world_size != attempt.world_size)
    return fail("S3", "members of one attempt disagree on its world size");
  if (location.rank().value < 0 || location.rank().value >= location.ranks.world_size)
    return fail("S3",
                fmt::format("rank {} of {}", location.rank().value, location.ranks.world_size));
  if (attempt.members[location.rank().value] != nullptr)
    return fail("S3", fmt::format("rank {} of attempt {} started twice", location.rank().value,
                                  location.attempt.value));
  if (location.ranks.local_rank < 0 || location.ranks.local_rank >= location.ranks.local_world_size)
    fail("S3", "a local rank outside of its node's world");
  const WorkerLocation& peer =
      attempt.first_on_node.try_emplace(location.node, location).first->second;
  if (peer.rank().value - peer.ranks.local_rank !=
          location.rank().value - location.ranks.local_rank ||
      peer.ranks.node_rank != location.ranks.node_rank ||
      peer.ranks.local_world_size != location.ranks.local_world_size)
    fail("S3", "local ranks of one node do not follow its ranks");
  if (attempt.node_of_node_rank.try_emplace(location.ranks.node_rank, location.node)
          .first->second != location.node)
    fail("S3", "node ranks and nodes do not go together");
}

void Checkers::worker_killed(const SimWorker& worker) {
  const WorkerLocation& location = worker.location();
  AttemptView& attempt = view(location.attempt);
  attempt.live_others.erase(location.rank());
  if (attempt.live.erase(location.rank()) != 0) --live_on_node_[location.node];
}

void Checkers::worker_died(const SimWorker& worker) {
  worker_killed(worker);
  --alive_;
  if (!worker.location().ranks.trains()) --others_alive_;
}

// S2: no signal may hit a process that was given the pid of an earlier worker.
void Checkers::signalled(const WorkerLocation& meant, const SimWorker* hit) {
  if (hit == nullptr) return;
  if (hit->location().attempt != meant.attempt || hit->location().rank() != meant.rank())
    fail("S2", fmt::format("a signal for rank {} of attempt {} hits rank {} of attempt {}",
                           meant.rank().value, meant.attempt.value, hit->location().rank().value,
                           hit->location().attempt.value));
}

// S4: nobody leaves a barrier, such as the one in init(), before all n ranks of the attempt have
// joined. Each result has the part of every rank, from this call.
void Checkers::joined_barrier(const WorkerLocation& location, std::uint64_t sequence) {
  ++view(location.attempt).barriers[sequence].joined;
}

bool Checkers::all_joined(const WorkerLocation& location, std::uint64_t sequence) {
  return view(location.attempt).barriers[sequence].joined == location.ranks.world_size;
}

void Checkers::left_barrier(const WorkerLocation& location, std::uint64_t sequence,
                            const SimFrame& result) {
  Barrier& barrier = view(location.attempt).barriers[sequence];
  if (barrier.joined != location.ranks.world_size)
    fail("S4", fmt::format("a barrier of {} was left when {} had joined", location.ranks.world_size,
                           barrier.joined));
  if (std::exchange(barrier.checked, result.message.get()) != result.message.get()) {
    const auto& parts = result.get<CollectiveResult>()->parts;
    if (static_cast<int>(parts.size()) != location.ranks.world_size)
      return fail("S4", "a barrier's result does not have a part of each rank");
    for (int rank = 0; rank < location.ranks.world_size; ++rank) {
      if (parts[rank] != fmt::format("{}:{}", rank, sequence))
        fail("S4", fmt::format("part {} of barrier {} is '{}'", rank, sequence, parts[rank]));
    }
  }
  auto& barriers = view(location.attempt).barriers;
  if (++barrier.left == location.ranks.world_size) barriers.erase(sequence);
}

// L3: the launcher hears of a death within a bound while nothing delays the news.
void Checkers::crashed(const WorkerLocation& location) {
  AttemptView& attempt = view(location.attempt);
  attempt.crashed = true;
  const bool undisturbed = plan_.only_worker_faults() && plan_.spawn_fails == 0 &&
                           plan_.healthy_link(location.node) &&
                           plan_.links[location.node].loss == 0;
  if (!undisturbed || launcher_away_ || state_ != RunState::Running) return;
  known_by_.try_emplace(location.attempt, timeline_.now() + kDeathKnownWithin);
}

// L6: a worker that cannot be killed keeps nobody waiting for long.
void Checkers::cannot_be_killed(const SimWorker& worker) {
  const WorkerLocation& location = worker.location();
  const bool undisturbed = plan_.only_worker_faults() && plan_.healthy_link(location.node) &&
                           plan_.links[location.node].loss == 0 && !launcher_away_;
  if (undisturbed)
    given_up_by_.try_emplace(location.attempt, timeline_.now() + kStuckAfter + seconds(10));
}

void Checkers::left(const WorkerLocation& location, int code, bool asked) {
  if (code != 0 || asked) return;
  AttemptView& attempt = view(location.attempt);
  if (!std::exchange(attempt.has_left_well[location.rank().value], 1)) ++attempt.left_well;
}

// S16: ranks that come to their own end have handed over equally many checkpoints. Otherwise one
// rank's last checkpoint has the number of another's earlier one, and neither becomes complete.
void Checkers::ended_by_itself(const WorkerLocation& location, std::uint64_t checkpoints) {
  std::optional<std::uint64_t>& known = view(location.attempt).checkpoints_at_own_end;
  if (!known) known = checkpoints;
  if (*known != checkpoints)
    fail("S16", fmt::format("rank {} ends with {} checkpoints, another with {}",
                            location.rank().value, checkpoints, *known));
}

// ---- reports

Checkers::Reports& Checkers::reports_of(Attempt attempt, Rank rank) {
  auto& reports = view(attempt).reports;
  if (reports.size() <= static_cast<std::size_t>(rank.value)) reports.resize(rank.value + 1);
  return reports[rank.value];
}

// S12: a supervisor keeps a bounded number of reports for a launcher that does not answer.
void Checkers::handed_over(const WorkerLocation& location, std::uint64_t report_seq,
                           std::size_t kept) {
  Reports& reports = reports_of(location.attempt, location.rank());
  reports.handed = report_seq;
  reports.node = location.node;
  if (kept > plan_.report_window)
    fail("S12", fmt::format("{} reports of rank {} are kept, {} are allowed", kept,
                            location.rank().value, plan_.report_window));
}

// S8: the launcher writes each report once, in its rank's order, without gaps. It acknowledges a
// report only once it would survive a crash. At the end, no handed-over report is missing.
void Checkers::logged(Attempt attempt, Rank rank, std::uint64_t report_seq) {
  progress();
  std::uint64_t& last = reports_of(attempt, rank).logged;
  if (report_seq != last + 1)
    fail("S8", fmt::format("report {} of rank {} of attempt {} is written after {}", report_seq,
                           rank.value, attempt.value, last));
  last = report_seq;
}

void Checkers::acknowledged(Attempt attempt, Rank rank, std::uint64_t report_seq) {
  if (reports_of(attempt, rank).logged < report_seq)
    fail("S8", fmt::format("report {} of rank {} is acknowledged and not written", report_seq,
                           rank.value));
}

// L4: a queue of reports drains. A released worker has handed over all reports, unless its node
// counts as lost, and has heard of it, unless something delayed the news.
void Checkers::released(const WorkerLocation& location, std::uint64_t handed_over,
                        std::size_t kept) {
  if (lost_hosts_.count({location.attempt, location.node}) != 0) return;
  const bool unheard =
      kept != 0 && plan_.only_worker_faults() && plan_.links[location.node].loss == 0;
  if (unheard || reports_of(location.attempt, location.rank()).logged < handed_over)
    fail("L4", fmt::format("rank {} of attempt {} is released, and {} of its reports wait for an "
                           "acknowledgement",
                           location.rank().value, location.attempt.value, kept));
}

// S22: no rank is further ahead of the driver than its pace allows, unless the driver is gone, or a
// rank has ended.
void Checkers::driver_acknowledged(Attempt attempt, std::uint64_t rounds) {
  progress();
  std::uint64_t& known = view(attempt).rounds;
  known = std::max(known, rounds);
}

void Checkers::goes_on(const WorkerLocation& location, std::uint64_t report_seq,
                       std::uint32_t window) {
  const AttemptView& attempt = view(location.attempt);
  if (nobody_paces_ || static_cast<int>(attempt.live.size()) < attempt.world_size) return;
  if (report_seq >= attempt.rounds + window)
    fail("S22", fmt::format("rank {} of attempt {} goes on after report {}, the driver has taken "
                            "{} rounds, and is {} behind at most",
                            location.rank().value, location.attempt.value, report_seq,
                            attempt.rounds, window));
}

void Checkers::links_of_node(std::size_t links) {
  if (links > kLinksOfNodeMax)
    fail("S12", fmt::format("a traind has {} connections of launchers", links));
}

void Checkers::reports_waiting(std::size_t batches, std::size_t said_again) {
  const std::size_t ranks = static_cast<std::size_t>(plan_.spec.scaling_config.num_workers.max);
  if (batches > (said_again + 2) * (ranks + 1) * (plan_.report_window + 8))
    fail("S12", fmt::format("{} batches wait to be written", batches));
}

// ---- checkpoints

void Checkers::stored(Attempt attempt, Rank rank, std::uint64_t checkpoint_seq) {
  view(attempt).stored[checkpoint_seq].insert(rank);
}

// S5: a committed checkpoint never changes: its number is used once, and numbers grow. S7: it names
// a stored shard of every rank of one attempt, all of one checkpoint_seq, report and step; commits
// are in order.
void Checkers::committed(const Commit& commit, const CheckpointInfo& info) {
  AttemptView& attempt = view(commit.attempt);
  const bool overtaken = commit.checkpoint_seq < attempt.committed_seq;
  if (overtaken && attempt.given_up.contains(commit.checkpoint_seq)) return;
  const std::set<Rank>& stored = attempt.stored[commit.checkpoint_seq];
  std::set<Rank> ranks;
  for (const StagedShard& shard : commit.shards) {
    ranks.insert(shard.rank);
    if (shard.checkpoint_seq != commit.checkpoint_seq)
      fail("S7", "a checkpoint has shards of different checkpoint_seqs");
    const StagedShard& first = commit.shards.front();
    if (shard.report_seq != first.report_seq || shard.metadata_json != first.metadata_json)
      fail("S7", fmt::format("checkpoint {} has rank {} at report {}, step {}, and rank {} at "
                             "report {}, step {}",
                             info.number, first.rank.value, first.report_seq, first.metadata_json,
                             shard.rank.value, shard.report_seq, shard.metadata_json));
    if (!shard.error.empty() || stored.count(shard.rank) == 0)
      fail("S7", fmt::format("a committed shard of rank {} was never stored", shard.rank.value));
  }
  if (static_cast<int>(ranks.size()) != attempt.world_size || ranks.size() != commit.shards.size())
    fail("S7", fmt::format("checkpoint {} has {} shards of {} ranks, the attempt has {}",
                           info.number, commit.shards.size(), ranks.size(), attempt.world_size));
  if (commit.checkpoint_seq <= attempt.committed_seq)
    fail("S7", "checkpoints are committed out of order");
  attempt.stored.erase(attempt.stored.begin(), attempt.stored.upper_bound(commit.checkpoint_seq));
  attempt.committed_seq = commit.checkpoint_seq;
  if (newest_ && info.number <= newest_->number)
    fail("S5", "a checkpoint's number was given twice");
  newest_ = info;
  committed_.push_back(info.number);
  if (std::all_of(commit.shards.begin(), commit.shards.end(),
                  [](const StagedShard& shard) { return shard.request != 0; }))
    made_on_request_.insert(info.number);
  without_space_ = 0;
  std::erase_if(lacking_space_, [&](const auto& checkpoint) {
    return checkpoint <= std::pair(commit.attempt, commit.checkpoint_seq);
  });
  failures_.clear();
  may_count_.clear();
  progress();
}

void Checkers::gave_up(const GiveUpCommit& commit) {
  view(commit.attempt).given_up.insert(commit.checkpoint_seq);
}

void Checkers::validated(std::uint64_t number) {
  validated_.insert(number);
  progress();
}

// S6: an attempt begins from the newest committed checkpoint, and from the same one on every node.
void Checkers::restored(const Start& start) {
  if (start.placed.local_world_size == 0) return;  // nobody there restores it
  const auto& expected = view(start.attempt).restored;
  if (start.restore != expected)
    fail("S6",
         fmt::format("attempt {} restores checkpoint {}, it began from {}", start.attempt.value,
                     start.restore ? start.restore->number : 0, expected ? expected->number : 0));
}

void Checkers::begins_from(const WorkerLocation& location, const JobContext& context) {
  const std::optional<CheckpointInfo>& expected = view(location.attempt).restored;
  const CheckpointInfo none;
  const CheckpointInfo& wanted = expected ? *expected : none;
  if (context.restore_dir != wanted.path || context.restored_epoch != wanted.epoch)
    fail("S6", fmt::format("rank {} of attempt {} begins from '{}', epoch {}; the attempt restores "
                           "'{}', epoch {}",
                           location.rank().value, location.attempt.value, context.restore_dir,
                           context.restored_epoch, wanted.path, wanted.epoch));
}

// ---- all of it

void Checkers::full_check() {
  int alive = 0;
  std::vector<int> live(live_on_node_.size());
  for (const auto& [id, attempt] : attempts_) {
    for (const SimWorker* worker : attempt.members) {
      if (worker == nullptr || !worker->alive()) continue;
      ++alive;
      if (!worker->kill_sent()) ++live[worker->location().node];
    }
  }
  alive += others_alive_;
  if (alive != alive_) fail("S2", fmt::format("{} workers live, {} were counted", alive, alive_));
  for (std::size_t node = 0; node < live.size(); ++node) {
    if (live[node] > slots_per_node_)
      fail("S2", fmt::format("{} workers live on node {}", live[node], node));
  }
  const std::size_t pending_max =
      kPendingFree + kPendingPerRank * (static_cast<std::size_t>(plan_.nodes) +
                                        plan_.spec.scaling_config.num_workers.max);
  if (timeline_.pending() > pending_max)
    fail("S12", fmt::format("{} events are under way", timeline_.pending()));
}

// S19: each request is answered once; a checkpoint that the answer names is committed, and all
// ranks made it on request. (S7: at one report and step.)
void Checkers::checkpoint_answered(const CheckpointAnswered& answered) {
  if (checkpoints_asked_.erase(answered.id) == 0)
    return fail("S19", "a request for a checkpoint is answered twice");
  if (answered.error.empty() != (answered.number > 0))
    return fail("S19", "an answer names a checkpoint and an error, or neither");
  if (answered.number > 0 && !made_on_request_.contains(answered.number))
    fail("S19", fmt::format("checkpoint {} was not made on request", answered.number));
}

void Checkers::checkpoint_asked(const std::string& id) {
  checkpoints_asked_.emplace(id, timeline_.now());
}

void Checkers::run_over() {
  full_check();
  // L7: a launcher that lives answers everybody, at the end of the attempt at the latest.
  if (!checkpoints_asked_.empty())
    fail("L7",
         fmt::format("{} requests for a checkpoint have no answer", checkpoints_asked_.size()));
  if (!ended_) fail("L1", "the run did not end");
  if (alive_ != 0) fail("S2", fmt::format("{} workers outlive their run", alive_));
  if (supervisors_ != 0) fail("S2", fmt::format("{} supervisors outlive their run", supervisors_));
  for (const auto& [id, attempt] : attempts_) {
    for (std::size_t rank = 0; rank < attempt.reports.size(); ++rank) {
      const Reports& reports = attempt.reports[rank];
      if (reports.logged == reports.handed || lost_hosts_.count({id, reports.node}) != 0) continue;
      fail("S8", fmt::format("rank {} of attempt {} handed over {} reports, {} are written", rank,
                             id.value, reports.handed, reports.logged));
    }
  }
}

void Checkers::after_event() {
  const TimePoint now = timeline_.now();
  if (gone_by_ && now > *gone_by_) {
    gone_by_.reset();
    if (alive_ != 0)
      fail("L2", fmt::format("{} workers live after a stop, its grace and 5 s", alive_));
  }
  if (progress_by_ && now > *progress_by_) {
    progress_by_.reset();
    if (!ended_) fail("L1", "the faults are over, and nothing goes on");
  }
  if (!given_up_by_.empty() && now > given_up_by_.begin()->second)
    fail("L6", fmt::format("attempt {} waits for a worker that cannot be killed",
                           given_up_by_.begin()->first.value));
  if (!known_by_.empty() && now > known_by_.begin()->second)
    fail("L3", fmt::format("the launcher does not know that a worker of attempt {} is dead",
                           known_by_.begin()->first.value));
}

}  // namespace train::sim
