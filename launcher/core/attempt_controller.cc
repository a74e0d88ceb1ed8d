#include "launcher/core/attempt_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/core/placed_ranks.h"
#include "launcher/core/start_refusal.h"
#include "lib/base/overloaded.h"
#include "lib/model/backend_profile.h"

namespace train {

AttemptController::AttemptController(const RunContext& run, Attempt id, const Placement& placement,
                                     int restart_count)
    : run_(run),
      group_(id, placement, run.checkpoints.newest()),
      ending_(run_, group_),
      restart_count_(restart_count),
      collectives_(placement.world_size),
      backend_collectives_(placement.world_size),
      hangs_(run_, group_),
      time_(placement.world_size, now()),
      start_watch_(run_, group_),
      ingest_(run.spec, id, placement, /*adopted=*/false),
      ingest_hosts_(placement, /*adopted=*/false) {}

AttemptController::AttemptController(const RunContext& run, const LivingAttempt& living)
    : run_(run),
      group_(living),
      ending_(run_, group_),
      restart_count_(living.restart_count),
      collectives_(living.placement.world_size),
      backend_collectives_(living.placement.world_size),
      hangs_(run_, group_),
      time_(living.placement.world_size, now() - living.age, living.noted),
      start_watch_(run_, group_),
      ingest_(run.spec, living.id, living.placement, /*adopted=*/true),
      ingest_hosts_(living.placement, /*adopted=*/true) {
  time_.committed(living.resolved_seq);
}

// ---- starting

void AttemptController::begin() {
  change_state(RunTrigger::NodesGranted,
               fmt::format("attempt {}: {} workers on {} {}", group_.id.value,
                           workers_of_all_roles(group_.placement), group_.placement.nodes.size(),
                           group_.placement.nodes.size() == 1 ? "node" : "nodes"));
  record_begin();
  for (const PlacedNode& placed : group_.placement.nodes) run_.progress.add(prepare_for(placed));
  ingest_hosts_.for_each_supervised([this](NodeId node) { prepare_ingest_host(node); });
}

void AttemptController::record_begin() {
  AttemptBegun begun{group_.id, group_.placement, {}, group_.restored, restart_count_};
  for (const PlacedNode& placed : group_.placement.nodes)
    begun.node_names.push_back(run_.nodes.name(placed.node));
  const ScalingConfig& scaling = run_.spec.scaling_config;
  if (!scaling.other_roles.empty()) begun.roles.push_back(scaling.role);
  for (const RoleSpec& role : scaling.other_roles) begun.roles.push_back(role.name);
  run_.progress.add(std::move(begun));
}

Prepare AttemptController::prepare_for(const PlacedNode& placed) const {
  Prepare prepare{group_.id, placed,
                  placed.node_rank == NodeRank{0} && run_.spec.backend != Backend::None};
  prepare.ports_per_worker = ports_per_worker(run_.spec);
  prepare.ingest = ingest_claim(group_.placement, placed.node, ingest_needs(run_.spec));
  return prepare;
}

void AttemptController::on(const AttemptPrepared& event) {
  if (ingest_hosts_.has(event.node)) {
    if (ingest_hosts_.step(event.node) == IngestHosts::Step::Preparing)
      ingest_hosts_.set(event.node, IngestHosts::Step::Prepared);
    return start_ingest_host(event.node);
  }
  if (!group_.hosts.has(event.node)) return;
  const PlacedNode& placed = group_.hosts.placed(event.node);
  if (!ports_.prepared(placed, event.ports, ports_per_worker(run_.spec))) {
    const std::string what = fmt::format("{} ports", event.ports.size());
    return on(
        StartRefused{event.attempt, event.node, placed.first_rank,
                     Error{Errc::Protocol,
                           "the supervisor did not hold the ports that were asked for: " + what}});
  }
  if (!group_.hosts.is_prepared(event.node) &&
      run_.spec.run_config.check_digests != DigestCheck::Off)
    digests_.add(event.node, run_.nodes.name(event.node), event.digests);
  group_.hosts.prepared(event.node);
  if (placed.node_rank == NodeRank{0}) master_port_ = event.master_port;
}

/// Say where nodes would not run the same, or end the attempt for it.
bool AttemptController::refuses_differences() {
  const DigestComparison::Finding finding = digests_.finding(run_.spec.run_config.check_digests);
  if (finding.texts.empty()) return false;
  if (run_.spec.run_config.check_digests == DigestCheck::Warn) {
    for (const std::string& text : finding.texts) run_.progress.note(NoteLevel::Warning, text);
    return false;
  }
  ending_.fail({.kind = FailureKind::Start,
                .cause = fmt::format("{} (run_config.check_digests: warn starts it all the same)",
                                     fmt::join(finding.texts, "; ")),
                .node = finding.node});
  return true;
}

void AttemptController::advance_preparing() {
  if (!group_.hosts.all_prepared()) {
    if (auto late = start_watch_.advance()) {
      ending_.fail(std::move(*late));
      // Nothing was started there, and nothing will be: there is no end to wait for.
      for (const PlacedNode& placed : group_.placement.nodes)
        if (!group_.hosts.is_prepared(placed.node)) group_.hosts.gone(placed.node);
    }
    return;
  }
  if (refuses_differences()) return;
  if (group_.restored != run_.checkpoints.newest()) {
    // A late commit of the attempt before. Retention may have removed the one before it.
    group_.restored = run_.checkpoints.newest();
    record_begin();
  }
  change_state(RunTrigger::AllPrepared, "");
  const NodeId first = group_.placement.nodes.front().node;
  const std::string master_addr =
      group_.placement.nodes.size() == 1 ? "127.0.0.1" : run_.nodes.address(first);
  const SharedValue<Placement> shared(group_.placement);
  const SharedValue<std::vector<std::string>> peers(
      ports_.peers(group_.placement, [&](NodeId node) {
        return group_.placement.nodes.size() == 1 ? master_addr : run_.nodes.address(node);
      }));
  for (const PlacedNode& placed : group_.placement.nodes) {
    Start start{group_.id,    placed,          shared,         master_addr,
                master_port_, group_.restored, restart_count_, peers};
    if (placed.local_world_size == 0) start.restore.reset();  // nobody there trains
    group_.hosts.ordered(placed.node, start);
    start_ = start;
    run_.progress.add(std::move(start));
  }
  ingest_hosts_.for_each_supervised([this](NodeId node) { start_ingest_host(node); });
}

void AttemptController::on(const AttemptStarted& event) {
  if (ingest_hosts_.has(event.node)) {
    if (ingest_hosts_.step(event.node) != IngestHosts::Step::Ordered) return;
    ingest_hosts_.set(event.node, IngestHosts::Step::Started);
    return perform(ingest_.node_started(event.node));
  }
  if (!group_.hosts.has(event.node)) return;
  if (group_.hosts.started(event.node)) from_standby_ += event.from_standby;
  for (const auto& [rank, pid] : event.pids)
    if (group_.ranks.trains(rank)) time_.started(rank, now());
  perform(ingest_.node_started(event.node));
  started_ = group_.hosts.all_started();
  if (state() == RunState::Starting && started_) change_state(RunTrigger::AllStarted, "");
}

void AttemptController::on(const StartRefused& event) {
  if (ingest_hosts_.has(event.node))
    return ingest_host_lost(event.node, event.error.message, IngestHosts::Step::Gone);
  if (!group_.hosts.has(event.node) || group_.hosts.is_gone(event.node)) return;
  group_.hosts.gone(event.node);
  group_.ranks.node_lost(event.node);
  // An earlier launcher gave the order. If the reason still holds, the next attempt will find out.
  if (group_.adopted) return ending_.give_up(kNotStartedBefore);
  // Several runs had been offered the same room. If there is none, the next attempt waits for it.
  if (event.busy) return ending_.give_up(event.error.message, /*lacked_room=*/true);
  // An older checkpoint is restored instead, so no failure is counted.
  if (give_up_restored(event.error)) return ending_.give_up(event.error.message);
  ending_.fail(
      failure_of(event, group_.hosts.is_prepared(event.node), run_.nodes.name(event.node)));
}

// ---- nodes

void AttemptController::on(const NodeUp& event) {
  const NodeId node = event.capacity.node;
  const bool has_us = std::count(event.attempts.begin(), event.attempts.end(), group_.id) != 0;
  if (ingest_hosts_.has(node)) {
    if (!has_us) prepare_ingest_host(node);
    return;
  }
  if (!group_.hosts.has(node)) return;
  if (has_us) return group_.hosts.reconnected(node);  // its supervisor will attach by itself
  if (group_.hosts.is_gone(node)) return group_.hosts.lost(node);  // its workers had already gone
  if (group_.hosts.is_prepared(node)) {
    host_lost(node,
              fmt::format("the supervisor on {} ended while its node was unreachable",
                          run_.nodes.name(node)),
              FailureKind::Worker);
  } else if (state() == RunState::Preparing) {
    run_.progress.add(prepare_for(group_.hosts.placed(node)));
  } else {
    group_.hosts.gone(node);  // nothing was started there, and nothing will be
  }
}

void AttemptController::on(const NodeDown& event) {
  if (!is_supervised(event.node)) return;
  if (ingest_hosts_.has(event.node))
    return ingest_host_lost(event.node, "the node is lost: " + event.reason,
                            IngestHosts::Step::Lost);
  host_lost(event.node,
            fmt::format("node {} is lost: {}", run_.nodes.name(event.node), event.reason),
            FailureKind::NodeLost);
}

void AttemptController::on(const SupervisorLost& event) {
  if (ingest_hosts_.has(event.node))
    return ingest_host_lost(event.node, "its supervisor ended: " + event.reason,
                            IngestHosts::Step::Gone);  // traind spawns no other for the attempt
  if (!group_.hosts.has(event.node)) return;
  host_lost(
      event.node,
      fmt::format("the supervisor on {} ended: {}", run_.nodes.name(event.node), event.reason),
      FailureKind::Worker);
}

void AttemptController::host_lost(NodeId node, const std::string& reason, FailureKind kind) {
  const bool was_gone = group_.hosts.is_gone(node);
  group_.hosts.lost(node);
  perform(ingest_.node_gone(node));
  if (was_gone) return;
  const std::vector<Rank> ranks = group_.ranks.node_lost(node);
  for (const Rank rank : ranks) {
    if (!group_.ranks.trains(rank)) continue;
    perform(requests_.rank_ended(rank));
    release_collectives(collectives_.rank_ended(rank));
    release_collectives(backend_collectives_.rank_ended(rank));
  }
  // Nothing of the training was there, and that has ended well.
  if (state() == RunState::TearingDown && group_.ranks.all_ended_by_themselves() &&
      group_.hosts.placed(node).local_world_size == 0)
    return;
  // The supervisor ended while there was no launcher: it does so if none returns in time.
  if (group_.adopted && !group_.hosts.is_attached(node) && kind == FailureKind::Worker)
    return ending_.give_up(reason);
  const std::optional<Rank> first = ranks.empty() ? std::nullopt : std::optional(ranks.front());
  ending_.fail({.kind = kind, .cause = reason, .rank = first, .node = node});
}

void AttemptController::on(const SupervisorAttached& event) {
  if (ingest_hosts_.has(event.node)) return ingest_host_attached(event);
  group_.hosts.attached(event.node, event.has_workers);
  for (const RankState& rank : event.ranks) {
    group_.ranks.change(rank.rank, [&](RankTable::Entry& entry) {
      entry.joined |= rank.joined;
      if (group_.ranks.trains(rank.rank)) entry.reported = std::max(entry.reported, rank.reported);
    });
  }
  if (state() == RunState::Attaching) requests_.found(event.checkpoint_order);
  perform(run_.checkpoints.resolved_before(event.resolved_checkpoint));
  if (group_.hosts.is_gone(event.node)) return;
  send_again(event.node);
  perform(ingest_.attached(event));
}

// Send the orders again. Any order may be given twice: supervisors and workers know what they have
// already done.
void AttemptController::send_again(NodeId node) {
  if (state() == RunState::TearingDown) return ending_.send_again(node);
  if (state() == RunState::Preparing && !group_.hosts.is_prepared(node))
    run_.progress.add(prepare_for(group_.hosts.placed(node)));
  if (const Start* order = group_.hosts.unanswered_order(node)) run_.progress.add(*order);
  if (const auto& order = requests_.newest_order(); order && state() != RunState::Attaching)
    run_.progress.add(OrderCheckpoint{group_.id, node, *order});
  ending_.send_again(node);
}

void AttemptController::advance_attaching() {
  const HostTable::Found found = group_.hosts.found();
  if (found == HostTable::Found::NotYet) return ending_.advance_attaching();
  if (found == HostTable::Found::NotAllStarted) return ending_.give_up(kNotStartedBefore);
  if (group_.was_ending) return ending_.take_down(kStoppedBefore);
  if (group_.was_pausing && !group_.ranks.all_ended_by_themselves()) {
    ending_.continue_pause();
  } else {
    change_state(RunTrigger::GroupFound, "");
  }
  release_collectives(std::exchange(held_back_, {}));
  perform(requests_.drop_found());
  perform(ingest_.found());
  if (state() == RunState::Running && run_.progress.stop()) ending_.stop_found();
  ending_.drain_found();
}

// ---- ranks

void AttemptController::on(const RankReported& event) {
  if (!group_.ranks.trains(event.rank)) return;
  progressed_ = true;
  if (event.report_seq <= group_.ranks.find(event.rank)->reported) return;
  group_.ranks.change(event.rank,
                      [&](RankTable::Entry& rank) { rank.reported = event.report_seq; });
}

void AttemptController::on(const RanksSampled& event) {
  hangs_.on(event);
  ending_.on(event);
  for (const RankSample& sample : event.ranks) {
    if (!group_.ranks.trains(sample.rank)) continue;
    time_.sampled(sample.rank, sample.progress, now());
    stragglers_.sampled(sample, now());
  }
  look_for_stragglers();
}

void AttemptController::look_for_stragglers() {
  if (state() != RunState::Running) return stragglers_.interrupt();
  for (StragglerDetector::Finding& found : stragglers_.judge(group_.ranks, run_.nodes, now()))
    run_.progress.add(StragglerChanged{group_.id, found.slow, std::move(found.ranks),
                                       run_.nodes.name(found.node), found.phase, found.behind,
                                       found.lasted, found.odds, std::move(found.text)});
}

void AttemptController::on(const RankPaused& event) {
  if (!group_.ranks.trains(event.rank)) return;
  time_.paused(event.rank);
  // A pause that is repeated over a new link predates the order that says how far to go.
  const bool predates_order =
      state() == RunState::Pausing && ending_.quiesce()->meeting_at_report() && !event.arrived;
  group_.ranks.change(event.rank, [&](RankTable::Entry& rank) {
    rank.reported = std::max(rank.reported, event.report_seq);
    if (predates_order) return;
    rank.paused = event.report_seq;
    rank.checkpoint_seq = event.checkpoint_seq;
    rank.arrived = event.arrived;
    rank.checkpoint_pending = event.checkpoint_pending;
  });
  if (predates_order) return;
  // An earlier launcher asked for the pause and died before its journal recorded that.
  ending_.paused_before();
}

void AttemptController::on(const RankExited& event) {
  const RankTable::Entry* rank = group_.ranks.find(event.rank);
  if (rank == nullptr || !rank->alive()) return;
  group_.ranks.ended(event.rank, event.end);
  const bool trains = group_.ranks.trains(event.rank);
  if (trains) {
    perform(requests_.rank_ended(event.rank));
    time_.ended(event.rank, event.progress, event.ago, now());
  }
  ending_.rank_ended(event.rank);
  // A rank that waits for this one in a collective call must be stopped as well, before it fails.
  const bool by_us_now = state() == RunState::TearingDown;
  if (event.end.stop_requested && group_.adopted && !by_us_now) return ending_.stopped_before();
  if (event.end.told_to_stop && group_.adopted) ending_.paused_before();
  if (trains) {
    release_collectives(collectives_.rank_ended(event.rank));
    release_collectives(backend_collectives_.rank_ended(event.rank));
  }
  // If no launcher returns in time, a supervisor stops its workers unasked. That is not a good end,
  // but it is no failure either if there was no launcher.
  const bool stopped_by_us = event.end.stop_requested && (by_us_now || group_.was_ending);
  if (stopped_by_us || (event.end.clean() && !event.end.stop_requested)) return;
  // If an earlier launcher was stopping the group, we still have to find out why.
  const bool ending = by_us_now && !group_.was_ending;
  if (cause().failed() || ending) return;
  const bool at_start = !progressed_ && rank->joined;
  ending_.fail({.kind = at_start ? FailureKind::Start : FailureKind::Worker,
                .rank = event.rank,
                .end = event.end,
                .node = rank->node});
}

void AttemptController::on(const NodeGroupGone& event) {
  if (ingest_hosts_.has(event.node)) {
    if (ingest_hosts_.step(event.node) != IngestHosts::Step::Lost)
      ingest_hosts_.set(event.node, IngestHosts::Step::Gone);
    return perform(ingest_.node_gone(event.node));
  }
  if (!group_.hosts.has(event.node)) return;
  const bool unstarted =
      state() == RunState::Preparing ||
      (state() == RunState::Starting && group_.hosts.unanswered_order(event.node) != nullptr);
  const bool stopped_before_it_started = unstarted && !group_.hosts.is_gone(event.node);
  group_.hosts.gone(event.node);
  if (event.stay) stay_on_.insert(event.node);
  perform(ingest_.node_gone(event.node));
  if (!stopped_before_it_started) return;
  // Its traind drained while nobody heard of that, and stopped it as it stood by.
  group_.ranks.node_lost(event.node);
  ending_.give_up(fmt::format("the supervisor on {} was stopped before its workers started",
                              run_.nodes.name(event.node)));
}

// ---- collective calls

void AttemptController::on(const CollectiveJoined& event) {
  if (!group_.ranks.trains(event.rank)) return;
  CollectiveTracker& tracker = tracker_of(event.sequence);
  if (auto release = tracker.join(event.rank, event.sequence, event.name, event.data, now())) {
    if (release->error.empty() && &tracker == &collectives_) progressed_ = true;
    release_collectives({*release});
  }
}

void AttemptController::on(const CollectiveResolved& event) {
  if (event.error.empty() && event.sequence <= kBackendCollectives) progressed_ = true;
  if (const auto release =
          tracker_of(event.sequence).answered({event.sequence, event.parts, event.error}))
    release_collectives({*release});
}

CollectiveTracker& AttemptController::tracker_of(std::uint64_t sequence) {
  return sequence > kBackendCollectives ? backend_collectives_ : collectives_;
}

void AttemptController::release_collectives(const std::vector<CollectiveRelease>& releases) {
  if (state() == RunState::Attaching) {  // it is not yet known whether the group continues
    auto& held_back = held_back_;
    held_back.insert(held_back.end(), releases.begin(), releases.end());
    return;
  }
  for (const CollectiveRelease& release : releases) {
    const auto send = [&](NodeId node) {
      // Ranks that are being stopped must be told so first: an error would make them fail.
      if (state() == RunState::TearingDown && group_.hosts.may_lack_orders(node)) {
        ending_.send_again(node);
        group_.hosts.orders_given(node);
      }
      run_.progress.add(
          SendCollective{group_.id, node, release.sequence, release.parts, release.error});
    };
    if (release.only_for)
      send(group_.ranks.find(*release.only_for)->node);
    else
      group_.hosts.for_each_there(send);
  }
}

// ---- checkpoints

void AttemptController::on(const ShardStaged& event) {
  if (!group_.ranks.trains(event.shard.rank)) return;
  StagedShard shard = event.shard;
  requests_.staged(shard);
  const std::optional<Quiesce>& quiesce = ending_.quiesce();
  if (quiesce && quiesce->is_past_the_end(shard.report_seq) && shard.error.empty()) {
    shard.error = fmt::format("made at report {}, all ranks were to stop at {}", shard.report_seq,
                              quiesce->meeting());
  }
  perform(run_.checkpoints.staged(std::move(shard), now()));
}

void AttemptController::on(const CommitFinished& event) {
  if (event.checkpoint) time_.committed(event.checkpoint_seq);
  if (event.checkpoint)
    perform(requests_.committed(event.checkpoint_seq, event.checkpoint->number));
  perform(run_.checkpoints.commit_finished(event, situation()));
}

CheckpointCoordinator::Situation AttemptController::situation() const {
  return {.state = state(),
          .escalated = ending_.escalated(),
          .quiescing = ending_.quiesce().has_value()};
}

void AttemptController::perform(CheckpointCoordinator::Effects effects) {
  const auto tell = [this](NodeId node, const CheckpointTracker::Outcome& outcome) {
    run_.progress.add(
        TellCheckpoint{group_.id, node, outcome.checkpoint_seq, outcome.path, outcome.error});
  };
  const Overloaded perform_one{
      [&](CheckpointCoordinator::Tell& effect) {
        if (!effect.outcome.error.empty())
          perform(requests_.not_kept(effect.outcome.checkpoint_seq, effect.outcome.error));
        if (effect.only_for) return tell(group_.ranks.find(*effect.only_for)->node, effect.outcome);
        group_.hosts.for_each_there([&](NodeId node) { tell(node, effect.outcome); });
      },
      [&](CheckpointCoordinator::BeginCommit& effect) {
        run_.progress.add(
            Commit{group_.id, effect.checkpoint_seq, effect.number, std::move(effect.shards)});
      },
      [&](CheckpointCoordinator::AbandonCommit& effect) {
        run_.progress.add(GiveUpCommit{group_.id, effect.checkpoint_seq, std::move(effect.reason)});
      },
      [&](CheckpointCoordinator::OutOfSpace& effect) {
        ending_.fail({.kind = FailureKind::Permanent, .cause = std::move(effect.cause)});
      },
      [&](Note& note) { run_.progress.add(std::move(note)); },
  };
  for (CheckpointCoordinator::Effect& effect : effects) std::visit(perform_one, effect);
}

// ---- checkpoints that somebody asks for

void AttemptController::ask_checkpoint(const std::string& id) {
  if (state() == RunState::Running) return perform(requests_.asked(id, group_.ranks, now()));
  run_.progress.add(CheckpointAnswered{
      .id = id,
      .error = fmt::format("the workers are not training now: the run is {}", to_string(state()))});
}

void AttemptController::on(const CheckpointPositionTold& event) {
  if (group_.ranks.trains(event.rank)) perform(requests_.told(event, group_.ranks));
}

void AttemptController::advance_requests() {
  if (state() != RunState::Running && state() != RunState::Attaching)
    perform(requests_.leave_running(state()));
  perform(requests_.advance(now()));
}

void AttemptController::perform(const CheckpointRequests::Effects& effects) {
  const Overloaded perform_one{
      [&](const CheckpointOrder& order) {
        group_.hosts.for_each_there([&](NodeId node) {
          run_.progress.add(OrderCheckpoint{group_.id, node, order});
        });
      },
      [&](const CheckpointAnswered& answered) { run_.progress.add(answered); },
      [&](const Note& note) { run_.progress.add(note); },
  };
  for (const CheckpointRequests::Effect& effect : effects) std::visit(perform_one, effect);
}

// ---- ingest workers

void AttemptController::on(const DatasetsRead& event) {
  DatasetsRead of_training = event;
  std::erase_if(of_training.readers, [this](const DatasetsRead::Reader& reader) {
    return !group_.ranks.trains(reader.rank);
  });
  ingest_.on(of_training, now());
}

void AttemptController::perform(IngestBoard::Effects effects) {
  for (IngestBoard::Effect& effect : effects)
    std::visit([this](auto& action) { run_.progress.add(std::move(action)); }, effect);
}

// Nodes with ingest workers and without ranks: what goes wrong there is told, and is no failure.

/// Ask for a supervisor there, for the first time or because there is none.
void AttemptController::prepare_ingest_host(NodeId node) {
  const bool begins_or_runs = state() == RunState::Preparing || state() == RunState::Starting ||
                              state() == RunState::Running;
  if (!begins_or_runs || group_.adopted || run_.nodes.draining(node)) return;
  if (ingest_hosts_.step(node) == IngestHosts::Step::Gone) return;
  perform(ingest_.node_lost(node));
  ingest_hosts_.set(node, IngestHosts::Step::Preparing);
  run_.progress.add(prepare_for(ingest_hosts_.placed(node)));
}

/// Start what is prepared, once the ranks are told to start.
void AttemptController::start_ingest_host(NodeId node) {
  if (!start_ || ingest_hosts_.step(node) != IngestHosts::Step::Prepared) return;
  Start start = *start_;
  start.placed = ingest_hosts_.placed(node);
  start.restore.reset();  // nobody there needs it
  ingest_hosts_.set(node, IngestHosts::Step::Ordered);
  run_.progress.add(std::move(start));
}

void AttemptController::ingest_host_lost(NodeId node, const std::string& reason,
                                         IngestHosts::Step step) {
  const bool new_to_us = ingest_hosts_.step(node) != IngestHosts::Step::Lost &&
                         ingest_hosts_.step(node) != IngestHosts::Step::Gone;
  ingest_hosts_.set(node, step);
  perform(ingest_.node_lost(node));
  if (new_to_us && state() != RunState::TearingDown)
    run_.progress.note(NoteLevel::Warning, fmt::format("no ingest workers on {} any more: {}",
                                                       run_.nodes.name(node), reason));
}

void AttemptController::ingest_host_attached(const SupervisorAttached& event) {
  using Step = IngestHosts::Step;
  const Step step = ingest_hosts_.step(event.node);
  if (event.has_workers && (step == Step::Unknown || step == Step::Ordered))
    ingest_hosts_.set(event.node, Step::Started);
  if (!event.has_workers && step == Step::Unknown) ingest_hosts_.set(event.node, Step::Gone);
  if (!event.has_workers && step == Step::Preparing)
    run_.progress.add(prepare_for(ingest_hosts_.placed(event.node)));
  if (!event.has_workers && step == Step::Ordered) {
    ingest_hosts_.set(event.node, Step::Prepared);
    start_ingest_host(event.node);
  }
  if (ingest_hosts_.step(event.node) == Step::Started) perform(ingest_.attached(event));
}

void AttemptController::drain(const NodeDrain& event, const std::string& text) {
  if (ingest_hosts_.is_supervised(event.node)) {
    ingest_hosts_.set(event.node, IngestHosts::Step::Gone);
    perform(ingest_.node_lost(event.node));
    run_.progress.add(StopGroup{group_.id, event.node, Duration{}, text});
  }
  if (group_.hosts.has(event.node) && !group_.hosts.is_gone(event.node))
    ending_.drain(event.grace, text);
}

// Give up the restored checkpoint, because its bytes differ from those that were committed. A
// checkpoint that the user named is not replaced.
bool AttemptController::give_up_restored(const Error& error) {
  auto effects = run_.checkpoints.give_up_restored(group_.restored, error);
  if (!effects) return false;
  perform(std::move(*effects));
  return true;
}

// ---- do what is now possible, whatever the event was

void AttemptController::advance() {
  perform(run_.checkpoints.advance(situation(), now()));
  advance_requests();
  switch (state()) {
    case RunState::Attaching:
      return advance_attaching();
    case RunState::Preparing:
      return advance_preparing();
    case RunState::Running:
      return advance_running();
    case RunState::Pausing:
      // Training goes on until the ranks hand over a checkpoint, which may take any time.
      if (auto hang = pauses_at_checkpoint() ? hangs_.advance() : std::nullopt)
        return ending_.fail(std::move(*hang));
      return ending_.advance_pausing();
    case RunState::Starting:
      if (auto late = start_watch_.advance()) ending_.fail(std::move(*late));
      return;
    case RunState::TearingDown:
    case RunState::Scheduling:
    case RunState::Finished:
    case RunState::Errored:
    case RunState::Stopped:
      return;
  }
}

void AttemptController::advance_running() {
  if (cause().failed()) return;
  advance_ingest();
  if (group_.ranks.all_ended()) return ending_.training_ended("every rank ended with 0");
  if (auto hang = hangs_.advance()) ending_.fail(std::move(*hang));
}

/// Consider how many ingest workers there should be. That looks at what all ranks wait for, and
/// thousands of ranks have news all the time.
void AttemptController::advance_ingest() {
  const auto every = milliseconds(group_.ranks.size() / 100);
  if (ingest_.empty() || (ingest_at_ && now() < *ingest_at_ + every)) return;
  ingest_at_ = now();
  perform(ingest_.advance(now()));
}

void AttemptController::watch() {
  perform(run_.checkpoints.watch(situation(), now()));
  for (CollectiveTracker* tracker : {&collectives_, &backend_collectives_})
    for (std::string& text : tracker->overdue(now()))
      run_.progress.note(NoteLevel::Warning, std::move(text));
}

std::optional<TimePoint> AttemptController::next_deadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  consider(collectives_.next_deadline());
  consider(backend_collectives_.next_deadline());
  consider(run_.checkpoints.next_deadline(state()));
  consider(ending_.next_deadline());
  consider(start_watch_.next_deadline());
  consider(requests_.next_deadline());
  if (state() == RunState::Running || (state() == RunState::Pausing && pauses_at_checkpoint()))
    consider(hangs_.next_deadline());
  return next;
}

bool AttemptController::workers_stay() const {
  const auto& nodes = group_.placement.nodes;
  return std::all_of(nodes.begin(), nodes.end(),
                     [this](const PlacedNode& placed) { return stay_on_.contains(placed.node); });
}

AttemptEnded AttemptController::conclude(bool keep_workers) {
  perform(requests_.attempt_ended());
  group_.hosts.for_each_supervised([&](NodeId node) {
    run_.progress.add(Release{group_.id, node, keep_workers});
  });
  ingest_hosts_.for_each_supervised([this](NodeId node) {
    run_.progress.add(Release{group_.id, node});
  });
  AttemptEnded ended = ending_.describe();
  const HangDetector::Learned learned = hangs_.learned();
  if (learned != HangDetector::Learned::Unknown)
    ended.learned_limits_right = learned == HangDetector::Learned::Right;
  ended.time = time_.accounts(end_of_time(ended), now());
  return ended;
}

/// Say how the attempt ended, as far as its work is concerned. What was done since the newest
/// checkpoint is kept only if nothing is to be done after it.
AttemptTime::End AttemptController::end_of_time(const AttemptEnded& ended) const {
  if (ended.failure == FailureKind::Hung) return AttemptTime::End::Hung;
  const std::optional<Stop>& stop = run_.progress.stop();
  const bool well = stop ? !run_.progress.stop_requested() : cause().none();
  return well ? AttemptTime::End::Good : AttemptTime::End::Bad;
}

}  // namespace train
