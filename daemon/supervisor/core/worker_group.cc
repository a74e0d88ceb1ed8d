#include "daemon/supervisor/core/worker_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace train {
namespace {

// traind tells of the launcher after the start: that takes longer than a short orphan timeout.
constexpr Duration kFirstLauncherMax = seconds(30);
// For a process that waited for another run in vain.
constexpr Duration kEndsByItselfMax = seconds(5);

}  // namespace

std::string_view to_string(GroupPhase phase) {
  switch (phase) {
    case GroupPhase::Prepared:
      return "prepared";
    case GroupPhase::Starting:
      return "starting";
    case GroupPhase::Running:
      return "running";
    case GroupPhase::Stopping:
      return "stopping";
    case GroupPhase::Gone:
      return "gone";
  }
  return "?";
}

// The group begins without a launcher: the one that asked for this attempt may be dead already.
WorkerGroup::WorkerGroup(Duration stop_grace, Duration orphan_timeout, TimePoint now)
    : stop_grace_(stop_grace), orphan_timeout_(orphan_timeout), now_(now), absent_since_(now) {}

void WorkerGroup::set_limits(Duration stop_grace, Duration orphan_timeout) {
  stop_grace_ = stop_grace;
  if (orphan_timeout.count() >= 0) orphan_timeout_ = orphan_timeout;
}

std::vector<GroupAction> WorkerGroup::handle(const GroupEvent& event, TimePoint now) {
  now_ = now;
  actions_.clear();
  std::visit([this](const auto& e) { on(e); }, event);
  advance();
  return std::move(actions_);
}

std::map<Rank, std::int64_t> WorkerGroup::alive() const {
  std::map<Rank, std::int64_t> pids;
  for (const auto& [rank, worker] : workers_) {
    if (worker.pid != 0 && !worker.dead()) pids[rank] = worker.pid;
  }
  return pids;
}

void WorkerGroup::on(const GroupStart& event) {
  if (phase_ != GroupPhase::Prepared) {
    // Either the order was sent again after a lost link, or the group was stopped before it
    // started. The launcher may not have heard of that, or may not have needed the group then.
    if (workers_.empty() && !released_) told_gone_ = false;
    return;
  }
  phase_ = GroupPhase::Starting;
  began_ = true;
  for (Rank rank : event.ranks) {
    workers_[rank] = Worker{};
    actions_.push_back(SpawnWorker{rank});
  }
  if (!event.ranks.empty()) return;
  // Only ingest workers are to run here: the group lives until it is stopped.
  phase_ = GroupPhase::Running;
  actions_.push_back(TellStarted{});
}

void WorkerGroup::on(const WorkerSpawned& event) {
  Worker& worker = workers_.at(event.rank);
  worker.pid = event.pid;
  if (phase_ == GroupPhase::Stopping) {  // asked to stop while it was being spawned
    worker.stop_requested = true;
    actions_.push_back(SignalWorker{event.rank, SIGKILL});
    return;
  }
  const bool all = std::all_of(workers_.begin(), workers_.end(),
                               [](const auto& w) { return w.second.pid != 0; });
  if (!all || start_failure_) return;
  phase_ = GroupPhase::Running;
  TellStarted started;
  for (const auto& [rank, w] : workers_) started.pids[rank] = w.pid;
  actions_.push_back(std::move(started));
}

// Start all or none: kill those that did start, and tell the launcher when none is left.
void WorkerGroup::on(const WorkerSpawnFailed& event) {
  Worker& worker = workers_.at(event.rank);
  worker.ended = WaitStatus{};
  worker.drained = true;
  if (!start_failure_) start_failure_ = TellStartFailed{event.rank, event.error};
  stop(Duration{0});
}

void WorkerGroup::on(const WorkerStays& event) {
  Worker& worker = workers_.at(event.rank);
  if (worker.dead()) return;
  worker.ended = WaitStatus{};
  worker.stays = true;
  actions_.push_back(TellExited{event.rank, worker.pid, *worker.ended, worker.stop_requested});
}

void WorkerGroup::on(const WorkerReaped& event) {
  Worker& worker = workers_.at(event.rank);
  if (std::exchange(worker.stays, false))  // its end as a worker was told
    return actions_.push_back(ReapRankLeftovers{event.rank});
  worker.ended = event.status;
  actions_.push_back(ReapRankLeftovers{event.rank});
  if (!start_failure_)
    actions_.push_back(TellExited{event.rank, worker.pid, event.status, worker.stop_requested});
}

void WorkerGroup::on(const WorkerDrained& event) { workers_.at(event.rank).drained = true; }

void WorkerGroup::on(const GroupStop& event) { stop(event.grace); }

// A launcher that comes back too late still takes what the workers left, and releases it.
void WorkerGroup::on(const LauncherPresence& event) {
  if (event.present) {
    was_present_ = true;
    absent_since_.reset();
    abandoned_ = false;
  } else if (!absent_since_) {
    absent_since_ = now_;
  }
}

void WorkerGroup::on(const GroupRelease& event) {
  keeps_ = event.keep_workers && phase_ == GroupPhase::Gone;
  if (phase_ != GroupPhase::Gone) stop(Duration{0});
  released_ = true;
}

bool WorkerGroup::all_stay() const {
  return !workers_.empty() && std::all_of(workers_.begin(), workers_.end(),
                                          [](const auto& w) { return w.second.stays; });
}

void WorkerGroup::stop(Duration grace) {
  if (phase_ == GroupPhase::Gone) return;
  const TimePoint kill_at = now_ + grace;
  if (phase_ == GroupPhase::Stopping && kill_at_ && *kill_at_ <= kill_at)
    return;  // a shorter grace has already begun
  const bool first = phase_ != GroupPhase::Stopping;
  phase_ = GroupPhase::Stopping;
  kill_at_ = kill_at;
  for (auto& [rank, worker] : workers_) {
    if (!worker.dead()) worker.stop_requested = true;
  }
  if (grace.count() > 0 && first) signal_alive(SIGTERM);
}

void WorkerGroup::signal_alive(int signal) {
  for (const auto& [rank, worker] : workers_) {
    if (worker.pid != 0 && !worker.dead()) actions_.push_back(SignalWorker{rank, signal});
  }
}

bool WorkerGroup::only_some_stay() const {
  return !all_stay() && std::any_of(workers_.begin(), workers_.end(),
                                    [](const auto& w) { return w.second.stays; });
}

/// No run begins with a part of the group: those that stay end by themselves, or are killed.
void WorkerGroup::end_those_that_stay() {
  if (!stay_until_) {
    stay_until_ = now_ + kEndsByItselfMax;
    return actions_.push_back(EndThoseThatStay{});
  }
  if (now_ < *stay_until_) return;
  stay_until_ = TimePoint::max();
  for (const auto& [rank, worker] : workers_)
    if (worker.stays) actions_.push_back(SignalWorker{rank, SIGKILL});
}

void WorkerGroup::advance() {
  const auto due = orphaned_at();
  if (due && now_ >= *due) {
    abandoned_ = true;
    stop(stop_grace_);
  }
  if (phase_ == GroupPhase::Stopping && kill_at_ && now_ >= *kill_at_) {
    kill_at_.reset();
    signal_alive(SIGKILL);
  }
  // Once the launcher has no use for what workers left, do not wait for it: storing it may take
  // long.
  const bool all_over = std::all_of(workers_.begin(), workers_.end(), [this](const auto& w) {
    return w.second.dead() && (w.second.drained || released_);
  });
  const bool may_end =
      phase_ == GroupPhase::Stopping || (phase_ == GroupPhase::Running && !workers_.empty());
  if (may_end && all_over && only_some_stay()) {
    end_those_that_stay();
  } else if (may_end && all_over) {
    phase_ = GroupPhase::Gone;
    kill_at_.reset();
  }
  if (phase_ == GroupPhase::Gone && !told_gone_) {
    told_gone_ = true;
    if (start_failure_)
      actions_.push_back(*start_failure_);
    else
      actions_.push_back(TellGone{all_stay()});
  }
  if (phase_ == GroupPhase::Gone && (abandoned_ || released_) && !over_) {
    over_ = true;
    if (keeps_ && all_stay()) return actions_.push_back(KeepWorkers{});
    actions_.push_back(EndSupervisor{released_ ? "released" : "no launcher reconnected in time"});
  }
}

std::optional<TimePoint> WorkerGroup::next_deadline() const {
  if (over_) return std::nullopt;
  std::optional<TimePoint> next = kill_at_;
  for (const auto due : {orphaned_at(), stay_until_})
    if (due && *due != TimePoint::max() && (!next || *due < *next)) next = due;
  return next;
}

/// Return when the workers are to stop, unless a launcher comes back before.
std::optional<TimePoint> WorkerGroup::orphaned_at() const {
  if (!absent_since_ || abandoned_ || released_) return std::nullopt;
  return *absent_since_ +
         (was_present_ ? orphan_timeout_ : std::max(orphan_timeout_, kFirstLauncherMax));
}

}  // namespace train
