// The checks of the launcher's decisions and of the run as a whole: S1, S10, S11, S15, S17, S18, L1
// to L5.
#include <algorithm>

#include "launcher/core/checkpoint_coordinator.h"
#include "launcher/core/stuck_workers.h"
#include "launcher/core/validation_queue.h"
#include "tests/sim/checkers.h"

namespace train::sim {
namespace {

// L1: from the end of the faults to a sign of progress. Meanwhile a silent node is declared dead,
// its attempt ends with its grace, the backoff passes, and workers start and report.
constexpr Duration kProgressWithin = seconds(30);
constexpr Duration kNodeHealthyFor = seconds(1);   // L3: its news was on the way before
constexpr Duration kLastHeardBefore = seconds(2);  // L3: before the trouble; one heartbeat a second
constexpr int kJoiningTrips = 8;  // L3: of frames, until a launcher hears from a node that is well

Duration slowest_step(const Plan& plan) {
  Duration slowest{};
  for (const Fault& fault : plan.faults) {
    if (fault.kind == FaultKind::SlowWorker) slowest = std::max(slowest, fault.length * 10);
  }
  return slowest;
}

}  // namespace

// S1: the generation of a run only grows, one generation at a time is current, and only its orders
// are followed.
void Checkers::attached(std::uint64_t generation, std::uint64_t held_by, bool holds) {
  if (holds && generation < held_by)
    fail("S1", fmt::format("a launcher of generation {} took the lease from one of epoch {}",
                           generation, held_by));
}

void Checkers::order_passed(std::uint64_t generation, std::uint64_t newest) {
  if (generation < newest)
    fail("S1",
         fmt::format("an order of generation {} is followed, {} is known", generation, newest));
}

void Checkers::launcher_began(std::uint64_t generation, const std::optional<LivingAttempt>& living,
                              const std::optional<RunEnded>& ended) {
  if (generation <= newest_generation_)
    fail("S1", fmt::format("a launcher begins with generation {} after {}", generation,
                           newest_generation_));
  newest_generation_ = generation;
  launcher_away_ = false;
  had_ended_ = ended;
  complete_.reset();
  std::erase_if(failures_,
                [this](const auto& failure) { return !view(failure.first).end_journaled; });
  if (last_attempt_ && last_attempt_->failure && view(last_attempt_->attempt).end_journaled)
    may_count_.insert_or_assign(last_attempt_->attempt, *last_attempt_->failure);
  if (!living) return;
  const AttemptView& attempt = view(living->id);
  std::size_t others = 0;
  for (const RoleSpec& role : plan_.spec.scaling_config.other_roles)
    others += static_cast<std::size_t>(role.workers);
  if (attempt.world_size > 0 && attempt.started == attempt.world_size &&
      attempt.others.size() == others)
    complete_ = living->id;
}

// Forget the launcher's decisions that nobody has written down: they did not happen.
void Checkers::launcher_died() {
  launcher_away_ = true;
  nobody_paces_ = true;        // its driver is gone with it
  checkpoints_asked_.clear();  // whoever asked is told that the launcher has died
  for (auto& [id, attempt] : attempts_) {
    attempt.ended = attempt.ended && attempt.end_journaled;
    attempt.begun_at.reset();  // the next launcher knows only what this one has written down
  }
  ended_.reset();
  pausing_.reset();
  finish_checked_.reset();
  known_by_.clear();
  state_ = {};
  lacking_space_.clear();
  may_be_out_of_space_ = false;
  resolved_.clear();
  without_space_ = 0;
  out_of_space_ = false;
}

// L4: a new launcher finds workers that went on by themselves; a launcher's death restarts nobody.
void Checkers::check_cause() {
  if (complete_ != last_attempt_->attempt) return;
  const AttemptView& attempt = view(*complete_);
  const bool lost = std::any_of(lost_hosts_.begin(), lost_hosts_.end(),
                                [this](const auto& host) { return host.first == *complete_; });
  if (attempt.crashed || attempt.orphaned || lost) return;
  if (last_attempt_->failure == FailureKind::Hung) return;  // S18 judges whether a rank has hung
  if (last_attempt_->failed || last_attempt_->cause.find("not started all") != std::string::npos)
    fail("L4", fmt::format("attempt {} starts again, and only its launcher had died: {}",
                           complete_->value, last_attempt_->cause));
}

// L3: no healthy node is declared dead, and no other node too early. (Injector checks that a dead
// node is declared dead.)
void Checkers::node_declared_lost(int node, std::optional<TimePoint> healthy_since,
                                  std::optional<TimePoint> unwell_since) {
  for (const auto& [id, attempt] : attempts_) {
    if (!attempt.ended) lost_hosts_.insert({id, node});
  }
  const Duration dead_after = plan_.spec.run_config.failure_config.node_dead_after;
  const LinkHabits& link = plan_.links[node];
  const Duration unwell = timeline_.now() - unwell_since.value_or(timeline_.now());
  const bool far_away = kLastHeardBefore + kJoiningTrips * link.delay_max > dead_after;
  if (link.loss == 0 && !far_away && unwell < dead_after - kLastHeardBefore - 2 * link.delay_max)
    fail("L3", fmt::format("node {} is declared dead {} after the first thing went wrong with it",
                           node, format_duration(unwell)));
  if (!healthy_since || !plan_.healthy_link(node)) return;
  const Duration healthy = timeline_.now() - *healthy_since;
  if (healthy >= dead_after + kNodeHealthyFor)
    fail("L3", fmt::format("node {} is declared dead after {} in which nothing was wrong with it",
                           node, format_duration(healthy)));
}

void Checkers::acted(const RunAction& action) {
  if (ended_) return fail("S11", "the controller acts after the end of the run");
  if (const auto* ended = std::get_if<AttemptEnded>(&action)) attempt_ended(*ended);
  if (const auto* ended = std::get_if<RunEnded>(&action)) run_ended(*ended);
  if (const auto* begun = std::get_if<AttemptBegun>(&action)) begins(*begun);
  if (const auto* start = std::get_if<Start>(&action)) restored(*start);
  if (const auto* pause = std::get_if<Pause>(&action)) paused(*pause);
  if (const auto* stop = std::get_if<StopGroup>(&action)) stopped(*stop);
  if (const auto* tell = std::get_if<TellCheckpoint>(&action)) told(*tell);
  if (const auto* order = std::get_if<CollectStacks>(&action)) accused(*order);
  if (const auto* counted = std::get_if<IngestChanged>(&action)) ingest_counted(*counted);
  if (const auto* changed = std::get_if<StateChanged>(&action)) {
    state_ = changed->to;
    if (changed->to != RunState::Running) known_by_.erase(changed->attempt);
    if (changed->to == RunState::Preparing || changed->to == RunState::Running) progress();
    if (changed->trigger == RunTrigger::RestartDecided) restart_decided();
    if (changed->from == RunState::TearingDown && changed->to == RunState::Errored) gave_up_run();
    if (changed->from == RunState::TearingDown && changed->to == RunState::Finished)
      ends_well(changed->attempt);
  }
}

// L5: before a run ends well, every due checkpoint is validated, except those given up for newer
// ones, as long as one of the last attempt's supervisors is left.
void Checkers::ends_well(Attempt last) {
  const int every = plan_.spec.run_config.checkpoint_config.validation.every;
  if (every == 0) return;
  const auto& hosts = view(last).node_of_node_rank;
  if (std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) {
        return lost_hosts_.contains({last, host.second});
      }))
    return;
  std::size_t newer = 0;
  for (auto number = committed_.rbegin(); number != committed_.rend(); ++number) {
    if (*number % static_cast<std::uint64_t>(every) != 0) continue;
    if (newer++ == kValidationsWaitingMax) return;
    if (!validated_.contains(*number))
      return fail("L5", fmt::format("the run ends, and checkpoint {} was not validated", *number));
  }
}

// S10: restarts stay within the budget of their kind, which is used up before the run is given up,
// and only a newer checkpoint refills it. A group that is resized has not failed; one that loses a
// node that it can do without was preempted. A failure does not count if the launcher died before
// its journal knew of it.
void Checkers::restart_decided() {
  check_cause();
  if (out_of_space_) fail("S15", "the run goes on, and its storage has been full for too long");
  if (!last_attempt_->failure) return;
  const FailureKind kind = *last_attempt_->failure;
  failures_.insert_or_assign(last_attempt_->attempt, kind);
  const Budget budget = budget_of(kind, failures_);
  if (budget.allowed && budget.used > *budget.allowed)
    fail("S10", fmt::format("{} restarts without progress after failures like '{}', {} are allowed",
                            budget.used, to_string(kind), *budget.allowed));
}

Checkers::Budget Checkers::budget_of(FailureKind kind,
                                     const std::map<Attempt, FailureKind>& failures) const {
  const FailureConfig& config = plan_.spec.run_config.failure_config;
  const bool elastic = plan_.spec.scaling_config.num_workers.elastic();
  const auto limit_of = [&](FailureKind one) {
    if (one == FailureKind::Preempted || (one == FailureKind::NodeLost && elastic))
      return &FailureConfig::max_preemptions;
    return one == FailureKind::Start ? &FailureConfig::max_start_failures
                                     : &FailureConfig::max_failures;
  };
  const auto limit = limit_of(kind);
  Budget budget;
  if (config.*limit != kUnlimited) budget.allowed = static_cast<std::size_t>(config.*limit);
  for (const auto& [attempt, one] : failures) budget.used += limit_of(one) == limit ? 1 : 0;
  return budget;
}

// S10, continued. What no restart can help needs no budget, nor does a crash loop, in which a rank
// dies in three attempts since the last progress.
void Checkers::gave_up_run() {
  const auto& kind = last_attempt_->failure;
  if (!kind || kind == FailureKind::Permanent) return;
  if (no_node_is_left()) return;
  std::map<Attempt, FailureKind> counted = failures_;
  counted.insert(may_count_.begin(), may_count_.end());
  counted.erase(last_attempt_->attempt);
  const bool may_be_crash_loop =
      last_attempt_->location && counted.size() + 1 >= static_cast<std::size_t>(kSameLocationMax);
  const Budget budget = budget_of(*kind, counted);
  if (!may_be_crash_loop && (!budget.allowed || budget.used < *budget.allowed))
    fail("S10", fmt::format("the run is given up after {} restarts without progress after failures "
                            "like '{}', {} are allowed",
                            budget.used, to_string(*kind),
                            budget.allowed ? fmt::format("{}", *budget.allowed) : "any number"));
}

// Ranks that wait in report() when the end is announced must all wait at the same report. Skip a
// rank whose first report is still on its way.
void Checkers::paused(const Pause& pause) {
  const bool again = pausing_ == pause.attempt && pause.step == PauseStep::Finish;
  pausing_ = pause.attempt;
  if (pause.step != PauseStep::Finish) return;
  AttemptView& attempt = view(pause.attempt);
  if (attempt.crashed || (again && finish_checked_ == pause.attempt)) return;
  finish_checked_ = pause.attempt;
  for (const SimWorker* worker : attempt.members) {
    if (worker == nullptr || !worker->alive() ||
        reports_of(pause.attempt, worker->location().rank()).logged == 0 ||
        attempt.has_left_well[worker->location().rank().value])
      continue;
    if (worker->report_seq() != pause.report_seq &&
        unwell_nodes_.count(worker->location().node) == 0)
      fail("S7",
           fmt::format("rank {} is to end at report {}, the others at {}",
                       worker->location().rank().value, worker->report_seq(), pause.report_seq));
  }
}

// L2: a stop that nothing disturbs needs no signal: the workers meet and leave by themselves.
void Checkers::stopped(const StopGroup& stop) {
  const bool undisturbed = plan_.faults.empty() && plan_.stops.size() <= 1 &&
                           plan_.spawn_fails == 0 && plan_.habits.has_sdk && plan_.armed == 0;
  const bool time_enough = plan_.spec.run_config.failure_config.stop_grace >= seconds(5);
  if (undisturbed && time_enough && quick_links_ && pausing_ == stop.attempt &&
      stop.reason != "every rank ended" && !stop.reason.starts_with("all workers of role"))
    fail("L2", "a stop gracefully ends by signals: " + stop.reason);
}

void Checkers::attempt_ended(const AttemptEnded& ended) {
  progress();
  last_attempt_ = ended;
  known_by_.erase(ended.attempt);
  given_up_by_.erase(ended.attempt);
  AttemptView& attempt = view(ended.attempt);
  attempt.ended = true;
  stuck_nodes_.insert(ended.stuck.begin(), ended.stuck.end());
  for (Rank rank : attempt.live) {
    if (lost_hosts_.contains({ended.attempt, attempt.members[rank.value]->location().node}))
      continue;
    fail("S2",
         fmt::format("attempt {} ended while its rank {} lives", ended.attempt.value, rank.value));
  }
  for (const auto& [rank, location] : attempt.live_others) {
    if (lost_hosts_.contains({ended.attempt, location.node})) continue;
    fail("S2", fmt::format("attempt {} ended while its rank {}, of another role, lives",
                           ended.attempt.value, rank.value));
  }
  // S20: each second of each worker's place is booked to one use.
  const int places = attempt.places;
  if (attempt.begun_at && ended.time.total() != (timeline_.now() - *attempt.begun_at) * places)
    fail("S20", fmt::format("attempt {} of {} workers: {} ms are booked after {} ms",
                            ended.attempt.value, places, ended.time.total() / milliseconds(1),
                            (timeline_.now() - *attempt.begun_at) / milliseconds(1)));
  // S17: a node that has no room, or drains, has done nothing wrong.
  const auto because = [&](const char* text) {
    return ended.failed && ended.cause.find(text) != std::string::npos;
  };
  if (because("has too little free") || because("takes no new workers"))
    fail("S17", "the lack of room counts as a failure: " + ended.cause);
  if (ended.failure == FailureKind::Hung) accused(ended);
}

// S18: a rank is accused only if it has shown no sign of life of its own for its limit. One that
// waits for others or for train-run, or is merely slow, is not.
void Checkers::accused(const AttemptEnded& ended) {
  ++groups_that_hung_;
  const auto& members = view(ended.attempt).members;
  const SimWorker* worker = ended.root_rank ? members[ended.root_rank->value] : nullptr;
  if (worker == nullptr || worker->longest_silence() < 1)
    fail("S18", "a rank is accused that did not hang: " + ended.cause);
}

void Checkers::accused(const CollectStacks& order) {
  const auto& members = view(order.attempt).members;
  if (std::none_of(members.begin(), members.end(), [](const SimWorker* worker) {
        return worker != nullptr && worker->longest_silence() >= 1;
      }))
    fail("S18", "a rank is accused, and none hangs");
}

// S11: a run ends once, and with the right outcome.
void Checkers::run_ended(const RunEnded& ended) {
  ended_ = ended;
  timeline_.trace("run ended: {} ({})", to_string(ended.outcome), ended.reason);
  if (had_ended_ && !stop_asked_ && (ended.outcome != had_ended_->outcome))
    fail("S11", "a run ends in another way than it had ended before");
  const bool by_condition = ended.stop == StopKind::StopCondition;
  switch (ended.outcome) {
    case RunState::Stopped:
      if (!stop_asked_) fail("S11", "the run is stopped, and nobody asked");
      return;
    case RunState::Finished:
      if (by_condition || had_ended_) return;
      if (ended.stop) fail("S11", "a run that somebody stopped counts as finished");
      if (!last_attempt_) return fail("S11", "a run is finished that never ran");
      if (view(last_attempt_->attempt).left_well != view(last_attempt_->attempt).world_size)
        fail("S11", "the run is finished, but not every rank left by itself with 0");
      return;
    case RunState::Errored:
      if (last_attempt_ && !last_attempt_->failed && !no_node_is_left())
        fail("S11", "the run is in error after an attempt that ended well");
      if (last_attempt_ && last_attempt_->failure == FailureKind::Permanent &&
          !plan_.command_missing && !may_be_out_of_space_ && !had_ended_)
        fail("S15", "the run is given up, and nothing is wrong that another attempt cannot mend");
      return;
    default:
      return fail("S11", "the run ended in a state that is none of an end");
  }
}

// S15: a run fails for lack of space if three checkpoints in a row were given up for it while the
// group ran, and not before.
void Checkers::lacked_space(const std::pair<Attempt, std::uint64_t>& checkpoint) {
  lacking_space_.insert(checkpoint);
  if (lacking_space_.size() >= kWithoutSpaceMax) may_be_out_of_space_ = true;
}

void Checkers::told(const TellCheckpoint& tell) {
  const std::pair checkpoint(tell.attempt, tell.checkpoint_seq);
  if (!resolved_.insert(checkpoint).second) return;  // every node is told
  const bool lacking = !tell.error.empty() && lacking_space_.contains(checkpoint);
  without_space_ = lacking ? without_space_ + 1 : 0;
  if (without_space_ >= kWithoutSpaceMax && state_ == RunState::Running) out_of_space_ = true;
}

// The next launcher may reuse an attempt's number if the last one died before its journal knew of
// it; then no worker of the first attempt was ever started.
void Checkers::begins(const AttemptBegun& begun) {
  const Attempt attempt = begun.attempt;
  if (begun.restore != newest_) fail("S6", "an attempt begins from a checkpoint before the newest");
  if (had_ended_) fail("S11", "a run that had ended begins again");
  AttemptView& seen = view(attempt);
  const bool had_workers = std::any_of(seen.members.begin(), seen.members.end(),
                                       [](const SimWorker* worker) { return worker != nullptr; });
  if (had_workers)
    fail("S2", fmt::format("attempt {} begins a second time, and had workers", attempt.value));
  seen.restored = begun.restore;
  seen.begun_at = timeline_.now();
  seen.places = begun.placement.world_size;
  seen.ended = false;
  std::erase_if(lost_hosts_, [&](const auto& host) { return host.first == attempt; });
}

// L2: once a stop is asked for, no worker lives after its grace and five seconds if undisturbed.
void Checkers::stop_asked(StopKind kind, TimePoint workers_gone_by) {
  if (ended_) return;
  if (kind != StopKind::StopCondition) stop_asked_ = true;
  if (!gone_by_ || workers_gone_by < *gone_by_) gone_by_ = workers_gone_by;
}

// L1: once the faults are over, training goes on within 30 s, plus the time of a step or of a hello
// that a slow node has begun.
void Checkers::faults_over() {
  const bool may_hang = plan_.has(FaultKind::HangWorker) && !plan_.judges_hangs();
  if (ended_ || may_hang) return;
  Duration step = plan_.habits.has_sdk ? plan_.habits.step_max : Duration(seconds(5));
  if ((plan_.armed & 1u << static_cast<int>(Site::HelloLate)) != 0)
    step = std::max<Duration>(step, milliseconds(5300));
  // A slow node stores its shards on a slow disk one after the other.
  const bool slow_disk = plan_.has(FaultKind::SlowNode) && plan_.has(FaultKind::DiskSlow);
  progress_by_ = timeline_.now() + kProgressWithin + seconds(slow_disk ? 180 : 0) +
                 plan_.spec.run_config.failure_config.stop_grace +
                 step * (plan_.has(FaultKind::SlowNode) ? 10 : 1);
  if (plan_.judges_hangs())
    *progress_by_ += plan_.hang_known_within() + kStuckAfter + slowest_step(plan_);
}

void Checkers::progress() { progress_by_.reset(); }

}  // namespace train::sim
