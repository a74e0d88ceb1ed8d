#include "tests/sim/launcher.h"

#include <algorithm>
#include <set>

#include "launcher/core/run_history.h"
#include "lib/base/overloaded.h"

namespace train::sim {
namespace {

JobSpec spec_of(const Sim& sim) {
  JobSpec spec = sim.plan.spec;
  if (sim.mutant == Mutant::BudgetNotCounted)
    spec.run_config.failure_config.max_failures = kUnlimited;
  if (int& restarts = spec.run_config.failure_config.max_failures;
      sim.mutant == Mutant::BudgetCutShort && restarts > 0)
    --restarts;
  if (sim.mutant == Mutant::PhaseLimitForgotten)
    spec.run_config.failure_config.phase_timeouts.clear();
  if (sim.mutant == Mutant::HangsObserved)
    spec.run_config.failure_config.hang_action = HangAction::Observe;
  if (sim.mutant == Mutant::ValidationForgotten)
    spec.run_config.checkpoint_config.validation.every = 0;
  return spec;
}

std::vector<StopRule> rules_of(const JobSpec& spec) {
  std::vector<StopRule> rules;
  for (const StopCondition& stop : spec.run_config.stop)
    rules.push_back({stop.metric, stop.at_least});
  return rules;
}

// Return the checkpoint that the event says cannot be stored for lack of space.
std::optional<std::pair<Attempt, std::uint64_t>> checkpoint_without_space(const RunEvent& event) {
  if (const auto* staged = std::get_if<ShardStaged>(&event); staged && staged->shard.no_space)
    return std::pair(staged->attempt, staged->shard.checkpoint_seq);
  if (const auto* finished = std::get_if<CommitFinished>(&event); finished && finished->no_space)
    return std::pair(finished->attempt, finished->checkpoint_seq);
  return std::nullopt;
}

RunEvent without_the_lack(RunEvent event) {
  if (auto* staged = std::get_if<ShardStaged>(&event)) staged->shard.no_space = false;
  if (auto* finished = std::get_if<CommitFinished>(&event)) finished->no_space = false;
  return event;
}

}  // namespace

SimLauncher::SimLauncher(Sim& sim, Nodes& nodes, SimFolder& folder, std::uint64_t generation)
    : sim_(sim),
      nodes_(nodes),
      folder_(folder),
      generation_(generation),
      has_driver_(folder.journal.empty()),
      run_{.run_id = "",
           .name = "sim",
           .generation = generation_,
           .location = "",
           .storage_marker = "",
           .pace = has_driver_ ? static_cast<std::uint32_t>(sim.plan.driver.pace) : 0},
      start_(start_from(folder, sim.plan, generation_)),
      controller_(spec_of(sim), start_, sim.timeline.now()),
      stop_rules_(rules_of(sim.plan.spec)),
      pace_(run_.pace > 0),
      driver_(sim, {[this](Attempt attempt, std::uint64_t rounds) {
                      if (finished_ || dead_) return;
                      sim_.check.driver_acknowledged(attempt, rounds);
                      acknowledge(pace_.acknowledged(attempt, rounds));
                    },
                    [this] { on_driver_gone(); }}) {
  for (const auto& [attempt, ranks] : folder.reports) {
    for (const auto& [rank, last] : ranks) trackers_[attempt].restore(rank, last);
  }
  sim_.check.launcher_began(generation, start_.living, start_.ended);
  std::set<int> has_workers;
  if (start_.living) {
    for (const PlacedNode& placed : start_.living->placement.nodes)
      has_workers.insert(placed.node.value);
  }
  for (int node = 0; node < sim.plan.nodes; ++node) {
    SimDaemonLink::Handlers handlers;
    handlers.offered = [this, node](const NodeOffer& offer, bool attached) {
      offered(node, offer, attached);
    };
    handlers.received = [this, node](const SimFrame& frame) { received(node, frame); };
    handlers.down = [this, node](const std::string& reason) {
      const SimHost& host = nodes_[node]->host();
      sim_.check.node_declared_lost(node, host.healthy_since, host.unwell_since);
      lost_.insert(NodeId{node});
      feed(NodeDown{NodeId{node}, reason});
    };
    handlers.refused = [this] { sim_.check.fail("S1", "the newest launcher was refused"); };
    links_.push_back(std::make_unique<SimDaemonLink>(
        sim, *nodes[node], generation, has_workers.count(node) != 0, std::move(handlers)));
  }
}

void SimLauncher::start() {
  if (start_.living) {
    const auto held = folder_.reports.find(start_.living->id);
    if (held != folder_.reports.end()) {
      for (const auto& [rank, last] : held->second)
        feed(RankReported{start_.living->id, rank, last});
    }
  }
  for (const auto& link : links_) link->start();
  if (start_.ended) feed(Tick{});
  arm();
}

// ---- what comes in

void SimLauncher::offered(int node, const NodeOffer& offer, bool attached) {
  NodeUp up{{NodeId{node},
             offer.node_name,
             {.cpu = offer.total.cpu, .custom = {}},
             {.cpu = offer.free.cpu, .custom = {}}},
            "10.0.0.1",
            {},
            attached,
            offer.owner_has,
            offer.owner_wants,
            offer.runs};
  for (const std::uint32_t here : offer.attempts) up.attempts.push_back(Attempt{here});
  feed(up);
}

// Make the controller's events with the product's own translator, and do the rest as the driver
// does.
void SimLauncher::received(int index, const SimFrame& frame) {
  if (finished_ || dead_) return;
  const Sender from{frame.attempt, NodeId{index}};
  const Attempt attempt = frame.attempt;
  if (const auto* batch = frame.get<ReportBatch>()) {
    if (controller_.is_over(attempt)) return;
    auto& origins = origins_[attempt];
    if (origins.size() <= static_cast<std::size_t>(batch->rank)) origins.resize(batch->rank + 1);
    origins[batch->rank] = index;
    feed(to_event(from, *batch));
    add({attempt, *batch, {}});
  } else if (const auto* snapshot = frame.get<AttemptSnapshot>()) {
    ++said_again_;
    feed(to_event(from, *snapshot));
  } else if (const auto* paused = frame.get<WorkerPaused>()) {
    sim_.timeline.trace("rank {} pauses at report {}{}", paused->rank, paused->report_seq,
                        paused->arrived ? ", where it was told to go" : "");
    feed(to_event(from, *paused));
  } else if (const auto* validated = frame.get<ValidationEnded>()) {
    write_validation(validated->checkpoint);
  } else if (const auto* join = frame.get<CollectiveJoin>()) {
    feed(to_event(from, *join));
    if (sim_.mutant == Mutant::BarrierOpensEarly && join->rank == 0) {
      const Rank last{controller_.world_size() - 1};
      feed(CollectiveJoined{attempt, last, join->sequence, join->name,
                            fmt::format("{}:{}", last.value, join->sequence)});
    }
  } else {
    feed_one_of<Prepared, WorkersStarted, StartFailed, WorkerJoined, WorkerExited, GroupGone,
                AttemptLost, CheckpointPosition, ShardWritten, CollectiveAnswered, NodeDraining,
                WorkerSamples, IngestUp, IngestLoad, IngestEnded, DataSamples>(from, frame);
  }
}

template <class... Messages>
void SimLauncher::feed_one_of(const Sender& from, const SimFrame& frame) {
  const auto feed_if = [&]<class Message>(std::type_identity<Message>) {
    const auto* message = frame.get<Message>();
    if (message != nullptr) feed(to_event(from, *message));
    return message != nullptr;
  };
  (void)(feed_if(std::type_identity<Messages>()) || ...);
}

// ---- the controller

void SimLauncher::ask_to_stop(StopKind kind, const std::string& reason) {
  if (finished_ || dead_) return;
  sim_.timeline.trace("asked to stop: {}", reason);
  const FailureConfig& failure = sim_.plan.spec.run_config.failure_config;
  const bool undisturbed = sim_.plan.only_worker_faults() &&
                           !sim_.plan.has(FaultKind::WedgeWorker) &&
                           std::all_of(sim_.plan.links.begin(), sim_.plan.links.end(),
                                       [](const LinkHabits& l) { return l.loss == 0; });
  // Add two seconds for frames in flight and for workers that are not spawned yet.
  sim_.check.stop_asked(
      kind, undisturbed ? sim_.timeline.now() + failure.stop_grace + seconds(5) + seconds(2)
                        : TimePoint::max());
  if (sim_.mutant == Mutant::ConditionForgotten && kind == StopKind::StopCondition) return;
  feed(StopAsked{kind, reason});
}

void SimLauncher::on_driver_gone() {
  if (finished_ || dead_ || !has_driver_) return;
  sim_.check.nobody_paces();
  if (sim_.mutant != Mutant::PaceOutlivesDriver) acknowledge(pace_.driver_gone());
  run_.pace = 0;
  if (!sim_.plan.driver.leaves && !controller_.is_stopping())
    ask_to_stop(StopKind::Terminate, "its driver is gone");
}

void SimLauncher::ask_checkpoint() {
  if (finished_ || dead_ || controller_.done()) return;
  const std::string id = fmt::format("{}", ++checkpoints_asked_);
  sim_.timeline.trace("asked for a checkpoint, request {}", id);
  sim_.check.checkpoint_asked(id);
  feed(CheckpointAsked{id});
}

void SimLauncher::feed(const RunEvent& event) {
  if (finished_ || dead_) return;
  if (const auto* exited = std::get_if<RankExited>(&event);
      exited != nullptr && exited->rank.value < controller_.world_size() &&
      sim_.mutant != Mutant::PaceOutlivesRank)
    acknowledge(pace_.let_go(exited->attempt));
  if (const auto lacking = checkpoint_without_space(event)) sim_.check.lacked_space(*lacking);
  const bool forgotten = sim_.mutant == Mutant::LackOfSpaceForgotten;
  for (const RunAction& action :
       controller_.handle(forgotten ? without_the_lack(event) : event, sim_.timeline.now())) {
    if (sim_.mutant == Mutant::WrongEnd && std::holds_alternative<RunEnded>(action)) {
      RunEnded wrong = std::get<RunEnded>(action);
      if (wrong.outcome == RunState::Stopped) wrong.outcome = RunState::Finished;
      sim_.check.acted(wrong);
    } else if (sim_.mutant == Mutant::TimeBookedTwice &&
               std::holds_alternative<AttemptEnded>(action)) {
      AttemptEnded twice = std::get<AttemptEnded>(action);
      twice.time[TimeUse::Step] += twice.time[TimeUse::Step];
      sim_.check.acted(twice);
    } else {
      sim_.check.acted(action);
    }
    perform(action);
  }
  arm();
}

void SimLauncher::arm() {
  const auto deadline = controller_.next_deadline();
  if (!deadline || armed_ == deadline) return;
  armed_ = deadline;
  if (sim_.mutant == Mutant::DeadlinesForgotten) return;
  later(std::max<Duration>(milliseconds(1), *deadline - sim_.timeline.now()),
        [this, at = *deadline] {
          if (armed_ != at) return;
          armed_.reset();
          feed(Tick{});
        });
}

void SimLauncher::perform(const RunAction& action) {
  std::visit(
      Overloaded{
          [&](const Prepare& what) { prepare(what); },
          [&](const KeepRoom& keep) {
            send(keep.node, frame_of({}, claim_message(sim_.plan.spec, keep)));
          },
          [&](const Start& start) { start_workers(start); },
          [&](const StandBy& stand_by) {
            send(stand_by.node, frame_of(stand_by.attempt, standby_message(sim_.plan.spec, run_,
                                                                           stand_by.workers, {})));
          },
          [&](const StopGroup& stop) {
            send(stop.node, frame_of(stop.attempt, message_of(stop)));
            if (sim_.mutant == Mutant::RestartBeforeGone ||
                (sim_.mutant == Mutant::ReturnedNodeTrusted && lost_.contains(stop.node))) {
              later(Duration{0}, [this, attempt = stop.attempt, node = stop.node] {
                feed(NodeGroupGone{attempt, node});
              });
            }
          },
          [&](const Pause& pause) {
            const PauseWorkers message = message_of(pause);
            sim_.timeline.trace("node {} is told: {} {}", pause.node.value, message.step,
                                message.report_seq);
            send(pause.node, frame_of(pause.attempt, message));
          },
          [&](const OrderCheckpoint& order) {
            const RequestCheckpoint message = message_of(order);
            sim_.timeline.trace("node {} is asked for checkpoint {}: {} {} {}", order.node.value,
                                message.request, message.step, message.report_seq, message.call);
            send(order.node, frame_of(order.attempt, message));
          },
          [&](CheckpointAnswered answered) {
            sim_.timeline.trace("request {} is answered: {} {}", answered.id, answered.number,
                                answered.error);
            if (sim_.mutant == Mutant::AnswersForgotten) return;
            if (sim_.mutant == Mutant::AnotherCheckpointNamed && answered.number > 1)
              --answered.number;
            sim_.check.checkpoint_answered(answered);
          },
          [&](const Release& released) { release(released); },
          [&](const SendCollective& collective) { send_collective(collective); },
          [&](const TellCheckpoint& tell) {
            send(tell.node, frame_of(tell.attempt, message_of(tell, {})));
          },
          [&](const Commit& what) { commit(what); },
          [&](const GiveUpCommit& given_up) { give_up_commit(given_up); },
          [&](const Validate& validate) {
            sim_.timeline.trace("node {} is to validate checkpoint {}", validate.node.value,
                                validate.checkpoint.number);
            send(validate.node, frame_of(validate.attempt,
                                         RunValidation{.checkpoint = validate.checkpoint.number}));
          },
          [&](const CollectStacks& what) {
            if (sim_.timeline.random.chance(0.2)) return;  // the answer is lost
            later(sim_.between(milliseconds(1), seconds(15)), [this, what] {
              feed(StacksCollected{what.attempt, what.why, "", "", ""});
            });
          },
          [](const HangFound&) {},
          [&](const KeepIngest& keep) {
            send(keep.node, frame_of(keep.attempt, ingest_message(sim_.plan.spec, keep)));
          },
          [&](const EndIngest& end) { send(end.node, frame_of(end.attempt, message_of(end))); },
          [&](const SendRoster& roster) {
            if (!first_roster_ && !roster.roster->endpoints.empty()) first_roster_ = roster;
            TellIngestRoster message = message_of(roster);
            if (sim_.mutant == Mutant::RosterOfAnotherAttempt && first_roster_)
              message.endpoints = first_roster_->roster->endpoints;
            send(roster.node, frame_of(roster.attempt, message));
          },
          [&](const IngestChanged& changed) { remember(record_of(changed)); },
          [&](const StateChanged& changed) {
            sim_.timeline.trace("run {} → {} ({}): {}", to_string(changed.from),
                                to_string(changed.to), to_string(changed.trigger), changed.reason);
            remember(record_of(changed));
          },
          [&](const AttemptBegun& begun) {
            driver_.attempt_began(begun.attempt, begun.placement.world_size);
            remember(record_of(begun));
          },
          [&](const AttemptEnded& ended) {
            if (sim_.plan.dies_at_end && sim_.faults_go_on() && sim_.timeline.random.chance(0.5)) {
              later(sim_.between(Duration{0}, milliseconds(30)),
                    [this] { sim_.kill_launcher(sim_.between(Duration{0}, seconds(5))); });
            }
            if (sim_.mutant != Mutant::EndBeforeReports) {
              ++journal_holds_;
              when_flushed([this] {
                --journal_holds_;
                write_journal();
              });
            }
            remember(record_of(ended, ended.cause));
          },
          [&](const Note& note) { sim_.timeline.trace("note: {}", note.text); },
          [&](const StragglerChanged& changed) { remember(record_of(changed)); },
          [&](const NodeStateChanged& changed) { remember(record_of(changed)); },
          [&](const RunEnded& ended) {
            ending_ = true;
            when_flushed([this, ended] {
              run_ended_ = record_of(ended);
              finish();
            });
          }},
      action);
}

void SimLauncher::prepare(const Prepare& what) {
  send(what.placed.node,
       frame_of(what.attempt, prepare_message(sim_.plan.spec, run_, what, "", {})));
}

void SimLauncher::start_workers(Start start) {
  const auto& kept = folder_.checkpoints;
  if (sim_.mutant == Mutant::RestoresOldCheckpoint && start.restore && kept.size() > 1)
    start.restore = kept[kept.size() - 2].info;
  StartWorkers message = start_message(sim_.plan.spec, run_, start, {});
  set_node(message, start);
  if (sim_.mutant == Mutant::OffByOneRank && start.placed.node_rank.value == 1)
    for (WorkerRanks& worker : message.workers) ++worker.rank;
  Duration takes = sim_.between(Duration{0}, milliseconds(10));
  if (sim_.unlucky(Site::StartSlow)) takes += sim_.between(Duration{0}, seconds(2));
  when_journaled(
      [this, takes, node = start.placed.node, frame = frame_of(start.attempt, std::move(message))] {
        later(takes, [this, node, frame] { send(node, frame); });
      });
}

// Share one frame between all nodes.
void SimLauncher::send_collective(const SendCollective& what) {
  const auto* last = last_collective_.message ? last_collective_.get<CollectiveResult>() : nullptr;
  const bool same = last != nullptr && last_collective_.attempt == what.attempt &&
                    last->sequence == what.sequence && last->error == what.error &&
                    last->parts.size() == what.parts->size();
  if (!same) last_collective_ = frame_of(what.attempt, message_of(what));
  send(what.node, last_collective_);
}

void SimLauncher::commit(Commit what) {
  if (sim_.mutant == Mutant::ShardMissing && what.shards.size() > 1) what.shards.pop_back();
  when_flushed([this, what = std::make_shared<const Commit>(std::move(what))] {
    Duration takes = sim_.between(milliseconds(1), milliseconds(100)) +
                     sim_.between(Duration{0}, sim_.disk_extra);
    if (sim_.unlucky(Site::CommitSlow)) takes += sim_.between(Duration{0}, seconds(5));
    committing_ = what;
    later(takes, [this, what] {
      if (committing_ == what) committing_.reset();
      if (!finished_ && !given_up_.contains({what->attempt, what->checkpoint_seq}))
        commit_now(*what);
    });
  });
}

// Give up the commit as launcher/cluster/checkpoints/checkpoint_committer does: it may be too late
// to hold it back.
void SimLauncher::give_up_commit(const GiveUpCommit& what) {
  sim_.check.gave_up(what);
  const bool may_come = sim_.timeline.random.chance(0.5);
  if (!may_come) {
    given_up_.insert({what.attempt, what.checkpoint_seq});
    committing_.reset();
  }
  later(Duration{0}, [this, what, may_come] {
    CommitFinished finished{what.attempt, what.checkpoint_seq, {}, what.reason};
    finished.may_come = may_come;
    feed(finished);
  });
}

void SimLauncher::commit_now(const Commit& what) {
  if (sim_.disk_full || sim_.timeline.random.chance(sim_.plan.commit_fails)) {
    if (sim_.mutant == Mutant::CheckpointNumberTwice) ++numbers_skipped_;
    CommitFinished finished{what.attempt, what.checkpoint_seq, {}, "it cannot be stored"};
    finished.no_space = sim_.disk_full;
    return feed(finished);
  }
  const CheckpointInfo info = put_checkpoint(what);
  remember(
      checkpoint_record(what.attempt, what.checkpoint_seq, what.shards.front().report_seq, info));
  feed(CommitFinished{what.attempt, what.checkpoint_seq, info, ""});
}

void SimLauncher::release(const Release& what) {
  ++releases_;
  when_flushed([this, what] {
    when_journaled([this, what] {
      send(what.node, frame_of(what.attempt, ReleaseAttempt{}));
      --releases_;
      if (ending_) finish();
    });
  });
}

// Does what launcher/cluster/checkpoints/validation_executor does.
void SimLauncher::write_validation(std::uint64_t number) {
  const auto wanted = controller_.unvalidated();
  if (std::find(wanted.begin(), wanted.end(), number) == wanted.end() ||
      !validations_.insert(number).second)
    return;
  later(sim_.between(milliseconds(1), milliseconds(50)), [this, number] {
    validations_.erase(number);
    folder_.validated.insert(number);
    sim_.check.validated(number);
    feed(ValidationFinished{number});
  });
}

void SimLauncher::finish() {
  if (finished_ || releases_ > 0 || !run_ended_) return;
  finished_ = true;
  folder_.journal.push_back({generation_, *run_ended_});
  for (const auto& link : links_) link->detach();
}

// ---- reports

void SimLauncher::add(Item item) {
  if (sim_.mutant == Mutant::AckBeforeWrite && !item.flushed)
    acknowledge({{item.attempt, Rank{item.batch.rank}, item.batch.first_report_seq}});
  queue_.push_back(std::move(item));
  sim_.check.reports_waiting(queue_.size(), said_again_);
  if (!std::exchange(writing_, true)) write_soon();
}

void SimLauncher::write_soon() {
  Duration takes = sim_.between(std::chrono::microseconds(200), milliseconds(20));
  if (sim_.unlucky(Site::SyncSlow)) takes += sim_.between(Duration{0}, seconds(1));
  later(takes, [this] { write(); });
}

void SimLauncher::write() {
  const std::deque<Item> items = std::exchange(queue_, {});
  said_again_ = 0;
  for (const Item& item : items) {
    if (!item.flushed) take(item);
  }
  if (sim_.mutant != Mutant::AcksForgotten) {
    ReportPace::Acks synced;
    for (auto& [attempt, tracker] : trackers_) {
      for (const auto& [rank, last] : tracker.synced()) synced.push_back({attempt, rank, last});
    }
    acknowledge(sim_.mutant == Mutant::PaceNotKept ? synced : pace_.written(synced));
    if (has_driver_) {
      for (const auto& [attempt, rank, last] : synced) driver_.logged(attempt, rank, last);
    }
  }
  for (const Item& item : items) {
    if (item.flushed) item.flushed();
  }
  writing_ = !queue_.empty();
  if (writing_) write_soon();
}

void SimLauncher::take(const Item& item) {
  const ReportBatch& batch = item.batch;
  const auto accepted =
      trackers_[item.attempt].accept(Rank{batch.rank}, batch.first_report_seq, batch.count);
  if (!accepted) return sim_.check.fail("S8", accepted.error().message);
  const std::uint32_t known = sim_.mutant == Mutant::ReportsTakenTwice ? 0 : accepted->known;
  const std::uint64_t last = batch.first_report_seq + batch.count - 1;
  trackers_[item.attempt].written(Rank{batch.rank}, last);
  if (known < batch.count) folder_.reports[item.attempt][Rank{batch.rank}] = last;
  for (std::uint32_t i = known; i < batch.count; ++i)
    sim_.check.logged(item.attempt, Rank{batch.rank}, batch.first_report_seq + i);
  if (known == batch.count || batch.rank != 0 || condition_met_) return;
  ReportRecord newest;
  newest.metrics = {{"epoch", std::stod(batch.data)}};
  const auto met = stop_rules_.on_report(newest);
  if (!met) return;
  condition_met_ = true;
  later(Duration{0}, [this, reason = *met] { ask_to_stop(StopKind::StopCondition, reason); });
}

void SimLauncher::acknowledge(const ReportPace::Acks& acks) {
  const auto to = [&](std::size_t i) {
    const ReportPace::Ack& ack = acks[i];
    return std::pair(ack.attempt, origins_[ack.attempt][ack.rank.value]);
  };
  for (std::size_t i = 0; i < acks.size();) {  // ranks of one node are adjacent
    const auto [attempt, node] = to(i);
    AckReports message;
    for (; i < acks.size() && to(i) == std::pair(attempt, node); ++i)
      message.acks.push_back({acks[i].rank.value, acks[i].report_seq});
    send(NodeId{node}, frame_of(attempt, std::move(message)));
  }
}

}  // namespace train::sim
