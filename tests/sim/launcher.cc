#include "tests/sim/launcher.h"

#include <algorithm>

namespace train::sim {
namespace {

constexpr std::uint64_t kEpoch = 2;
constexpr Duration kAwayLimit = seconds(120), kRedialEvery = seconds(1);

RunStart start_of(const Plan& plan) {
  RunStart start;
  start.expected_nodes = static_cast<std::size_t>(plan.nodes);
  return start;
}

JobSpec spec_of(const Plan& plan, Mutant mutant) {
  JobSpec spec = plan.spec;
  if (mutant == Mutant::BudgetNotCounted) spec.run_config.failure_config.max_failures = kUnlimited;
  return spec;
}

}  // namespace

SimLauncher::SimLauncher(Timeline& timeline, Checkers& check, const Plan& plan, Mutant mutant,
                         std::vector<std::unique_ptr<SimNode>>& nodes)
    : timeline_(timeline),
      check_(check),
      plan_(plan),
      mutant_(mutant),
      nodes_(nodes),
      controller_(spec_of(plan, mutant), start_of(plan), timeline.now()) {
  links_.resize(nodes_.size());
}

void SimLauncher::start() {
  for (int node = 0; node < plan_.nodes; ++node) {
    links_[node].last_heard = timeline_.now();
    dial(node);
  }
  arm();
}

// ---- links

void SimLauncher::dial(int node) {
  if (finished_) return;
  DaemonLink& to = links_[node];
  if (!to.reachable) {
    timeline_.after(kRedialEvery, [this, node] { lost_link(node, false); });
    return;
  }
  timeline_.after(timeline_.random.between(milliseconds(1), milliseconds(30)), [this, node] {
    if (finished_) return;
    DaemonLink& daemon = links_[node];
    if (!daemon.reachable || !nodes_[node]->up()) return lost_link(node, daemon.reachable);
    connected(node, std::make_shared<SimLink>(timeline_, std::chrono::microseconds(50),
                                              milliseconds(20)));
  });
}

void SimLauncher::connected(int node, const LinkPtr& link) {
  links_[node].link = link;
  links_[node].redial = milliseconds(5);
  link->set_end(0, {[this, node](const SimFrame& frame) { received(node, frame); },
                    [this, node] {
                      links_[node].link.reset();
                      lost_link(node, true);
                    }});
  nodes_[node]->accept(link);
  const FailureConfig& failure = plan_.spec.run_config.failure_config;
  AttachRun attach{"run", "run", kEpoch};
  attach.orphan_timeout_ms =
      std::chrono::duration_cast<milliseconds>(failure.orphan_timeout).count();
  link->send(0, {{}, attach});
}

// As DaemonLink::check_limits(): a refused connection is a daemon that is away, silence is a node
// that may be dead.
void SimLauncher::lost_link(int node, bool refused) {
  if (finished_) return;
  DaemonLink& daemon = links_[node];
  if (daemon.link) return;
  const Duration silent = timeline_.now() - daemon.last_heard;
  const Duration limit =
      refused ? kAwayLimit : plan_.spec.run_config.failure_config.node_dead_after;
  if (!daemon.told_down && silent >= limit) {
    daemon.told_down = true;
    check_.node_declared_lost(node);
    feed(NodeDown{NodeId{node}, "no heartbeat"});
  }
  timeline_.after(daemon.redial, [this, node] {
    if (!links_[node].link) dial(node);
  });
  daemon.redial = std::min<Duration>(daemon.redial * 2, kRedialEvery);
}

void SimLauncher::cut(int node, bool silent) {
  DaemonLink& daemon = links_[node];
  daemon.reachable = !silent;
  if (daemon.link) daemon.last_heard = timeline_.now();
  if (!daemon.link) return;
  const Duration patience = silent ? seconds(3) : milliseconds(50);
  daemon.link->cut(timeline_.random.between(Duration{0}, patience),
                   timeline_.random.between(Duration{0}, silent ? seconds(10) : milliseconds(50)));
}

void SimLauncher::send(NodeId node, Attempt attempt, Payload payload) {
  if (links_[node.value].link) links_[node.value].link->send(0, {attempt, std::move(payload)});
}

void SimLauncher::received(int index, const SimFrame& frame) {
  const NodeId node{index};
  const Attempt attempt = frame.attempt;
  links_[index].last_heard = timeline_.now();
  if (const auto* offer = std::get_if<NodeOffer>(&frame.payload)) {
    links_[index].told_down = false;
    NodeUp up{{node,
               offer->node_name,
               {.cpu = offer->total.cpu, .custom = {}},
               {.cpu = offer->free.cpu, .custom = {}}},
              "10.0.0.1",
              {}};
    for (const std::uint32_t here : offer->attempts) up.attempts.push_back(Attempt{here});
    feed(up);
  } else if (const auto* batch = std::get_if<ReportBatch>(&frame.payload)) {
    feed(RankReported{attempt, Rank{batch->rank}, batch->first_ordinal + batch->count - 1});
    add({attempt, *batch, {}});
  } else if (const auto* prepared = std::get_if<Prepared>(&frame.payload)) {
    feed(AttemptPrepared{attempt, node, prepared->master_port});
  } else if (const auto* started = std::get_if<WorkersStarted>(&frame.payload)) {
    AttemptStarted event{attempt, node, {}};
    for (const StartedWorker& worker : started->workers)
      event.pids.emplace_back(Rank{worker.rank}, worker.pid);
    feed(event);
  } else if (const auto* failed = std::get_if<StartFailed>(&frame.payload)) {
    feed(StartRefused{attempt, node, Rank{failed->rank},
                      Error{failed->code == "not_found" ? Errc::NotFound : Errc::ResourceExhausted,
                            failed->message}});
  } else if (const auto* joined = std::get_if<WorkerJoined>(&frame.payload)) {
    feed(RankJoined{attempt, Rank{joined->rank}});
  } else if (const auto* exited = std::get_if<WorkerExited>(&frame.payload)) {
    RankEnd end{.signaled = exited->signaled,
                .status = exited->status,
                .stop_requested = exited->stop_requested,
                .last_lines = {},
                .error_what = {},
                .error_type = {},
                .error_stack = {},
                .last_ordinal = exited->last_ordinal};
    feed(RankExited{attempt, Rank{exited->rank}, end});
  } else if (std::holds_alternative<GroupGone>(frame.payload)) {
    feed(NodeGroupGone{attempt, node});
  } else if (const auto* lost = std::get_if<AttemptLost>(&frame.payload)) {
    feed(SupervisorLost{attempt, node, lost->reason});
  } else if (std::holds_alternative<AttemptSnapshot>(frame.payload)) {
    feed(SupervisorAttached{attempt, node});
  } else if (const auto* paused = std::get_if<WorkerPaused>(&frame.payload)) {
    feed(RankPaused{attempt, Rank{paused->rank}, paused->ordinal, paused->checkpoint_index});
  } else if (const auto* part = std::get_if<PartWritten>(&frame.payload)) {
    feed(PartStaged{attempt,
                    {Rank{part->rank},
                     part->index,
                     part->report_ordinal,
                     "",
                     {},
                     part->metadata_json,
                     part->error}});
  } else if (const auto* join = std::get_if<CollectiveJoin>(&frame.payload)) {
    feed(CollectiveJoined{attempt, Rank{join->rank}, join->sequence, join->name, join->data});
  } else if (std::holds_alternative<Refused>(frame.payload)) {
    check_.fail("the newest launcher was refused");
  }
}

// ---- the controller

void SimLauncher::ask_to_stop(StopKind kind) {
  timeline_.trace("asked to stop");
  if (!ending_) check_.stop_asked();
  feed(StopAsked{kind, "asked"});
}

void SimLauncher::feed(const RunEvent& event) {
  if (finished_) return;
  for (const RunAction& action : controller_.handle(event, timeline_.now())) {
    check_.acted(action);
    perform(action);
  }
  arm();
}

void SimLauncher::arm() {
  const auto deadline = controller_.next_deadline();
  if (!deadline || armed_ == deadline) return;
  armed_ = deadline;
  timeline_.after(std::max<Duration>(milliseconds(1), *deadline - timeline_.now()),
                  [this, at = *deadline] {
                    if (armed_ != at) return;
                    armed_.reset();
                    feed(Tick{});
                  });
}

Start SimLauncher::tampered(Start start) const {
  if (mutant_ == Mutant::OffByOneRank && start.placement.nodes.size() > 1)
    ++start.placement.nodes[1].first_rank.value;
  if (mutant_ == Mutant::RestoresOldCheckpoint && start.restore && start.restore->number > 1)
    --start.restore->number;
  return start;
}

void SimLauncher::perform(const RunAction& action) {
  if (const auto* prepare = std::get_if<Prepare>(&action)) {
    PrepareAttempt message;
    message.node_rank = prepare->placed.node_rank.value;
    message.local_world_size = prepare->placed.local_world_size;
    message.per_worker.cpu = plan_.spec.scaling_config.resources_per_worker.cpu;
    message.bind_master = prepare->bind_master;
    message.stop_grace_ms =
        std::chrono::duration_cast<milliseconds>(plan_.spec.run_config.failure_config.stop_grace)
            .count();
    send(prepare->placed.node, prepare->attempt, message);
  } else if (const auto* start = std::get_if<Start>(&action)) {
    const Start what = tampered(*start);
    if (what != *start) check_.restored(what);
    timeline_.after(timeline_.random.between(Duration{0}, milliseconds(10)),
                    [this, what] { start_workers(what); });
  } else if (const auto* stop = std::get_if<StopGroup>(&action)) {
    send(stop->node, stop->attempt,
         StopWorkers{std::chrono::duration_cast<milliseconds>(stop->grace).count(), stop->reason});
    if (mutant_ == Mutant::RestartBeforeGone) {
      timeline_.after(Duration{0}, [this, stop = *stop] {
        feed(NodeGroupGone{stop.attempt, stop.node});
      });
    }
  } else if (const auto* pause = std::get_if<Pause>(&action)) {
    static constexpr const char* kSteps[] = {"pause", "advance", "finish"};
    send(pause->node, pause->attempt,
         PauseWorkers{kSteps[static_cast<int>(pause->step)], pause->ordinal, pause->reason});
  } else if (const auto* released = std::get_if<Release>(&action)) {
    release(*released);
  } else if (const auto* collective = std::get_if<SendCollective>(&action)) {
    send(collective->node, collective->attempt,
         CollectiveResult{collective->sequence, collective->parts, collective->error});
  } else if (const auto* tell = std::get_if<TellCheckpoint>(&action)) {
    send(tell->node, tell->attempt, CheckpointOutcome{tell->index, tell->path, tell->error});
  } else if (const auto* what = std::get_if<Commit>(&action)) {
    commit(*what);
  } else if (const auto* changed = std::get_if<StateChanged>(&action)) {
    timeline_.trace("run {} → {} ({}): {}", to_string(changed->from), to_string(changed->to),
                    to_string(changed->trigger), changed->reason);
  } else if (const auto* note = std::get_if<Note>(&action)) {
    timeline_.trace("note: {}", note->text);
  } else if (std::holds_alternative<RunEnded>(action)) {
    ending_ = true;
    when_settled([this] { finish(); });
  }
}

void SimLauncher::start_workers(const Start& start) {
  StartWorkers message;
  message.world_size = start.placement.world_size;
  message.node_count = static_cast<std::int32_t>(start.placement.nodes.size());
  for (const PlacedNode& placed : start.placement.nodes) {
    if (placed.node != start.node) continue;
    message.node_rank = placed.node_rank.value;
    for (std::int32_t local = 0; local < placed.local_world_size; ++local)
      message.workers.push_back({placed.first_rank.value + local, local, {}});
  }
  if (start.restore) message.restored_epoch = start.restore->epoch;
  send(start.node, start.attempt, message);
}

void SimLauncher::commit(Commit what) {
  if (mutant_ == Mutant::PartMissing && what.parts.size() > 1) what.parts.pop_back();
  when_settled([this, what] {
    timeline_.after(timeline_.random.between(milliseconds(1), milliseconds(100)), [this, what] {
      if (timeline_.random.chance(plan_.commit_fails))
        return feed(CommitFinished{what.attempt, what.index, {}, "the disk is full"});
      CheckpointInfo info{
          .number = what.number, .path = fmt::format("checkpoint_{:06}", what.number), .epoch = -1};
      for (const PartOfCheckpoint& part : what.parts) {
        if (part.rank == Rank{0}) info.epoch = std::stoll(part.metadata_json);
      }
      check_.committed(what, info);
      timeline_.trace("checkpoint {} committed: attempt {}, epoch {}", info.number,
                      what.attempt.value, info.epoch);
      feed(CommitFinished{what.attempt, what.index, info, ""});
    });
  });
}

void SimLauncher::release(const Release& what) {
  ++releases_;
  when_settled([this, what] {
    send(what.node, what.attempt, ReleaseAttempt{});
    --releases_;
    if (ending_) finish();
  });
}

void SimLauncher::finish() {
  if (finished_ || releases_ > 0) return;
  finished_ = true;
  for (DaemonLink& daemon : links_) {
    if (daemon.link) daemon.link->send(0, {{}, DetachRun{}});
  }
}

// ---- reports

void SimLauncher::add(Item item) {
  if (mutant_ == Mutant::AckBeforeWrite && !item.settled)
    acknowledge(item.attempt, Rank{item.batch.rank}, item.batch.first_ordinal);
  queue_.push_back(std::move(item));
  if (std::exchange(writing_, true)) return;
  timeline_.after(timeline_.random.between(std::chrono::microseconds(200), milliseconds(20)),
                  [this] { write(); });
}

void SimLauncher::write() {
  const std::deque<Item> items = std::exchange(queue_, {});
  for (const Item& item : items) {
    if (!item.settled) take(item);
  }
  for (auto& [attempt, ledger] : ledgers_) {
    for (const auto& [rank, ordinal] : ledger.synced()) acknowledge(attempt, rank, ordinal);
  }
  for (const Item& item : items) {
    if (item.settled) item.settled();
  }
  writing_ = false;
  if (queue_.empty()) return;
  writing_ = true;
  timeline_.after(timeline_.random.between(std::chrono::microseconds(200), milliseconds(20)),
                  [this] { write(); });
}

void SimLauncher::take(const Item& item) {
  const ReportBatch& batch = item.batch;
  auto known = ledgers_[item.attempt].accept(Rank{batch.rank}, batch.first_ordinal, batch.count);
  if (!known) return check_.fail(known.error().message);
  if (mutant_ == Mutant::ReportsTakenTwice) *known = 0;
  for (std::uint32_t i = *known; i < batch.count; ++i)
    check_.logged(item.attempt, Rank{batch.rank}, batch.first_ordinal + i);
  if (*known == batch.count || batch.rank != 0 || condition_met_ ||
      plan_.spec.run_config.stop.empty())
    return;
  if (std::stod(batch.data) < plan_.spec.run_config.stop[0].at_least) return;
  condition_met_ = true;
  timeline_.after(Duration{0}, [this] {
    feed(StopAsked{StopKind::StopCondition, "epoch reached"});
  });
}

void SimLauncher::acknowledge(Attempt attempt, Rank rank, std::uint64_t ordinal) {
  for (std::size_t node = 0; node < links_.size(); ++node) {
    send(NodeId{static_cast<int>(node)}, attempt, AckReports{{{rank.value, ordinal}}});
  }
}

}  // namespace train::sim
