#include "tests/sim/worker.h"

#include <csignal>

#include "tests/sim/sim.h"

namespace train::sim {
namespace {

constexpr std::uint64_t kUnresolvedCheckpointsMax = 2;  // as in sdk/client/checkpoint_stager.h
constexpr int kPouredMax = 20;

}  // namespace

SimWorker::SimWorker(Sim& sim, SimHost& host, WorkerLocation location, const JobContext& context)
    : sim_(sim),
      host_(host),
      location_(location),
      step_(std::max<std::int64_t>(0, context.restored_epoch)),
      report_window_(context.report_window) {}

void SimWorker::start(LinkPtr link, std::function<void(SimEnd)> reaped) {
  link_ = std::move(link);
  reaped_ = std::move(reaped);
  pid_ = host_.add_process(this);
  sign_at_ = cpu_counted_at_ = born_at_ = sim_.timeline.now();
  link_->set_end(0, {[this](const SimFrame& frame) { received(frame); }, {}});
  if (!location_.ranks.trains()) {
    // It says hello, perhaps, and serves until it is told to end, or has done what it had to do.
    const Habits& habits = sim_.plan.habits;
    if (habits.has_sdk) later(sim_.between(milliseconds(1), seconds(1)), &SimWorker::join);
    if (habits.others_end) later(sim_.between(seconds(1), seconds(5)), &SimWorker::end_well);
    return;
  }
  if (!sim_.plan.habits.has_sdk)
    return later(sim_.between(milliseconds(100), seconds(5)), &SimWorker::go_on);
  Duration until_hello = sim_.between(milliseconds(1), milliseconds(300));
  if (sim_.unlucky(Site::HelloLate)) until_hello += sim_.between(seconds(1), seconds(5));
  later(until_hello, &SimWorker::begin_step);
}

void SimWorker::later(Duration delay, void (SimWorker::*what)()) {
  sim_.after(delay * host_.slow, [this, what] {
    const auto act = [this, what] {
      if (may_act()) (this->*what)();
    };
    if (stopped_)
      deferred_.push_back(act);
    else
      act();
  });
}

// ---- what its supervisor sees

void SimWorker::mark(Phase phase) {
  count_cpu();
  longest_silence_ = longest_silence();
  phase_ = phase;
  ++signs_;
  sign_at_ = sim_.timeline.now();
}

Duration SimWorker::silent_for() const { return sim_.timeline.now() - sign_at_; }

Duration SimWorker::silent_by_itself_for() const {
  const bool others_come = in_barrier_ && !sim_.check.all_joined(location_, barriers_);
  return others_come ? Duration{0} : sim_.timeline.now() - std::max(sign_at_, answered_at_);
}

double SimWorker::silence() const {
  if (waits() && !hangs()) return 0;
  if (in_barrier_ && !sim_.check.all_joined(location_, barriers_)) return 0;
  const Duration limit = sim_.plan.hang_limit(phase_);
  return limit == Duration{0}
             ? 0
             : static_cast<double>(silent_for().count()) / static_cast<double>(limit.count());
}

double SimWorker::longest_silence() const {
  return stop_sent_ || !alive_ ? longest_silence_ : std::max(longest_silence_, silence());
}

void SimWorker::count_cpu() {
  const TimePoint now = sim_.timeline.now();
  const bool computes = hung_ ? hang_loops_ : !stopped_ && !waits() && !slow_idle_;
  if (computes) cpu_ += now - cpu_counted_at_;
  cpu_counted_at_ = now;
}

RankSample SimWorker::sample() {
  const auto us = [](Duration time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  count_cpu();
  RankSample sample{.rank = location_.rank()};
  sample.progress = {.phase = phase_,
                     .quiet_us = us(sim_.timeline.now() - sign_at_),
                     .signs = signs_,
                     .steps = steps_ended_,
                     .collectives = calls_ended_};
  sample.process = {.pid = pid_,
                    .state = in_kernel_ ? "D"
                             : stopped_ ? "T"
                                        : "S",
                    .processes = 1,
                    .threads = 1,
                    .cpu_us = us(cpu_)};
  if (sim_.mutant == Mutant::WaitersAccused && phase_ == Phase::Collective)
    sample.progress.phase = Phase::Step;
  if (sim_.mutant == Mutant::StuckLookAsleep && in_kernel_) sample.process.state = "S";
  if (sim_.mutant == Mutant::SignsForgotten) {
    sample.progress.signs = 1;
    sample.progress.quiet_us = us(sim_.timeline.now() - born_at_);
  }
  return sample;
}

void SimWorker::hang(bool loops) {
  // A rank that waits for train-run is not the one that hangs.
  if (!alive_ || (sim_.plan.judges_hangs() && (in_report_ || waits_for_room_))) return;
  count_cpu();
  hung_ = true;
  hang_loops_ = loops && phase_ != Phase::None;
}

void SimWorker::stop_for(Duration length, bool in_kernel) {
  if (!may_act() || stopped_) return;
  count_cpu();
  stopped_ = true;
  in_kernel_ = in_kernel;
  sim_.after(length, [this] { go_on_after_stop(); });
}

void SimWorker::go_on_after_stop() {
  if (!alive_) return;
  longest_silence_ = longest_silence();
  count_cpu();
  stopped_ = in_kernel_ = false;
  if (kill_sent_) return die({{.signaled = true, .status = SIGKILL}}, Duration{0});
  for (const auto& act : std::exchange(deferred_, {})) act();
}

void SimWorker::be_slow_once(Duration length, bool idle) {
  slow_by_ = length;
  slow_idle_ = idle;
}

// ---- what it does

void SimWorker::join() { send(WorkerJoined{location_.rank().value, "sim"}); }
void SimWorker::end_well() { die({{.signaled = false, .status = 0}}, milliseconds(5)); }

// Begin a step. The first one says hello first.
void SimWorker::begin_step() {
  if (!std::exchange(said_hello_, true)) {
    send(WorkerJoined{location_.rank().value, "sim"});
    hello_at_ = sim_.timeline.now();
  }
  mark(Phase::Step);
  if (gate_.finished()) return leave(0);
  const Habits& habits = sim_.plan.habits;
  if (step_ >= habits.steps) return leave(0);
  told_to_stop_ = habits.asks_should_stop && gate_.stopping();
  if (told_to_stop_) return leave(0);
  later(sim_.between(habits.step_min, habits.step_max) + std::exchange(slow_by_, Duration{0}),
        habits.barrier_every != 0 && (step_ + 1) % habits.barrier_every == 0
            ? &SimWorker::join_barrier
            : &SimWorker::report);
}

void SimWorker::join_barrier() {
  if (gate_.finished()) return leave(0);
  mark(Phase::Collective);
  slow_idle_ = false;
  in_barrier_ = true;
  ++barriers_;
  sim_.check.joined_barrier(location_, barriers_);
  send(CollectiveJoin{location_.rank().value, barriers_, "barrier",
                      fmt::format("{}:{}", location_.rank().value, barriers_)});
}

bool SimWorker::checkpoint_due(std::int64_t step) const {
  const int every = sim_.plan.habits.checkpoint_every;
  const bool last = location_.ranks.rank == location_.ranks.world_size - 1;
  if (sim_.mutant == Mutant::ShardOfAnotherStep && last) --step;
  return every != 0 && step % every == 0;
}

// Report once there is capacity for reports that are not on disk and checkpoints that are not
// resolved.
void SimWorker::report() {
  if (gate_.finished()) return leave(0);
  const Habits& habits = sim_.plan.habits;
  const bool room =
      unacknowledged_.size() < sim_.plan.report_window || sim_.mutant == Mutant::WindowNotKept;
  const bool stager_free =
      !checkpoint_due(step_ + 1) || checkpoint_seq_ - resolved_ < kUnresolvedCheckpointsMax;
  slow_idle_ = false;
  if (phase_ != Phase::Report) mark(Phase::Report);
  const bool held = checkpoint_gate_.holds() && sim_.mutant != Mutant::RunsPastTheQuestion;
  waits_for_room_ = !room || !stager_free || held;
  if (waits_for_room_) return;
  std::uint64_t request =
      habits.asks_checkpoint_requested ? checkpoint_gate_.take_call(++checkpoint_calls_) : 0;
  std::int64_t count = 1;
  if (habits.barrier_every == 0 && habits.checkpoint_every == 0 && !gate_.stopping() &&
      report_window_ == 0 && sim_.plan.checkpoint_requests.empty() &&
      sim_.unlucky(Site::ReportsPoured))
    count =
        std::min<std::int64_t>(sim_.timeline.random.between(1, kPouredMax), habits.steps - step_);
  const std::uint64_t first = report_seq_ + 1;
  step_ += count;
  report_seq_ += static_cast<std::uint64_t>(count);
  unacknowledged_.push_back(report_seq_);
  send(ReportBatch{location_.rank().value, first, static_cast<std::uint32_t>(count),
                   fmt::format("{}", step_)});
  request = std::max(request, checkpoint_gate_.take_report(report_seq_));
  if (checkpoint_due(step_) || request != 0) stage(report_seq_, request);
  in_report_ = true;
  after_report();
}

void SimWorker::stage(std::uint64_t report_seq, std::uint64_t request) {
  ++checkpoint_seq_;
  last_checkpoint_report_seq_ = report_seq;
  const bool fails = sim_.disk_full || sim_.timeline.random.chance(sim_.plan.shard_fails);
  send(CheckpointStaged{.checkpoint_seq = checkpoint_seq_,
                        .report_seq = report_seq,
                        .metadata_json = fmt::format("{}", step_),
                        .error = fails ? "it cannot be written" : "",
                        .error_code = sim_.disk_full ? std::string(to_string(Errc::NoSpace)) : "",
                        .request = request});
}

// Wait as SupervisedSession::report() does.
void SimWorker::after_report() {
  if (!in_report_ || !may_act()) return;
  const auto next = gate_.after_report(
      report_seq_, sim_.plan.habits.stop_checkpoint || last_checkpoint_report_seq_ == report_seq_);
  if (next == sdk::StopGate::Next::Stop) return leave(0);
  if (next == sdk::StopGate::Next::GoOn) {
    if (report_window_ > 0 && !gate_.stopping()) {
      if (report_seq_ >= acknowledged_ + report_window_) return;
      sim_.check.goes_on(location_, report_seq_, report_window_);
    }
    in_report_ = false;
    return go_on();
  }
  const bool at_target =
      next == sdk::StopGate::Next::Arrived || next == sdk::StopGate::Next::Checkpoint;
  const bool told = next == sdk::StopGate::Next::Checkpoint ||
                    (at_target && sim_.mutant == Mutant::CheckpointOnArrival);
  const bool may_make_one = !stop_checkpoint_made_ && sim_.plan.habits.stop_checkpoint &&
                            last_checkpoint_report_seq_ != report_seq_;
  if (told && may_make_one) stage(report_seq_);
  stop_checkpoint_made_ |= told;
  const WorkerPaused here{location_.rank().value, report_seq_, checkpoint_seq_, at_target,
                          at_target && !told && may_make_one};
  if (announced_ == here) return;
  announced_ = here;
  send(here);
}

void SimWorker::go_on() {
  ++steps_ended_;
  if (!sim_.plan.habits.has_sdk || step_ >= sim_.plan.habits.steps) return leave(0);
  begin_step();
}

void SimWorker::received(const SimFrame& frame) {
  if (frame.get<CollectiveResult>() != nullptr) answered_at_ = sim_.timeline.now();
  if (stopped_) return deferred_.push_back([this, frame] { received(frame); });
  if (!may_act()) return;
  if (const auto* acks = frame.get<AckReports>()) {
    for (const ReportAck& ack : acks->acks) {
      std::erase_if(unacknowledged_, [&](std::uint64_t last) { return last <= ack.report_seq; });
      acknowledged_ = std::max(acknowledged_, ack.report_seq);
    }
    if (waits_for_room_)
      report();
    else
      after_report();
  } else if (const auto* outcome = frame.get<CheckpointOutcome>()) {
    resolved_ = std::max(resolved_, outcome->checkpoint_seq);
    if (waits_for_room_) report();
  } else if (const auto* result = frame.get<CollectiveResult>()) {
    if (!in_barrier_ || result->sequence != barriers_) return;  // answered twice
    mark(Phase::Step);
    in_barrier_ = false;
    ++calls_ended_;
    if (!result->error.empty()) return gate_.finished() ? leave(0) : leave(1);
    sim_.check.left_barrier(location_, barriers_, frame);
    report();
  } else if (const auto* order = frame.get<RequestCheckpoint>()) {
    if (checkpoint_gate_.order(
            {order->request, *parse_checkpoint_step(order->step), order->report_seq, order->call}))
      send(CheckpointPosition{.rank = location_.rank().value,
                              .request = order->request,
                              .reports = report_seq_,
                              .calls = checkpoint_calls_,
                              .has_function = sim_.plan.habits.stop_checkpoint});
    else if (waits_for_room_)
      report();
  } else if (const auto* roster = frame.get<TellIngestRoster>()) {
    if (roster->version <= roster_.version) return;
    roster_ = *roster;
    sim_.check.roster_arrived(location_, roster_);
  } else if (const auto* pause = frame.get<PauseWorkers>()) {
    if (pause->step == "pause")
      gate_.pause(pause->at_checkpoint);
    else if (pause->step == "advance")
      gate_.advance(pause->report_seq, pause->at_checkpoint);
    else if (pause->step == "checkpoint")
      gate_.checkpoint(pause->report_seq, pause->at_checkpoint);
    else
      gate_.finish(pause->reason);
    if ((in_barrier_ || waits_for_room_) && gate_.finished()) return leave(0);
    after_report();
  }
}

// ---- the end

void SimWorker::leave(int code) {
  if (code == 0 && sim_.plan.habits.has_sdk) send(WorkerGoodbye{told_to_stop_});
  const bool stopped = gate_.stopping() && step_ < sim_.plan.habits.steps;
  sim_.check.left(location_, code, stop_sent_ || stopped);
  if (code == 0 && !stop_sent_ && !gate_.finished() && !told_to_stop_)
    sim_.check.ended_by_itself(location_, checkpoint_seq_);
  die({{.signaled = false, .status = code}}, milliseconds(5));
}

void SimWorker::crash(int pick) {
  if (!alive_ || dying_ || in_kernel_) return;
  sim_.check.crashed(location_);
  if (pick % 3 == 0)
    die({{.signaled = true, .status = SIGSEGV}}, Duration{0});
  else
    die({{.signaled = false, .status = 1 + pick % 7}}, Duration{0});
}

void SimWorker::run_out_of_memory() {
  if (!alive_ || dying_ || in_kernel_) return;
  sim_.check.crashed(location_);
  die({{.signaled = true, .status = SIGKILL}, true}, Duration{0});
}

void SimWorker::signal(int number) {
  if (!alive_) return;
  longest_silence_ = longest_silence();
  stop_sent_ = true;
  if (number == SIGKILL) {
    if (!std::exchange(kill_sent_, true) && in_kernel_) sim_.check.cannot_be_killed(*this);
    sim_.check.worker_killed(*this);
    if (in_kernel_) return;
    return die({{.signaled = true, .status = SIGKILL}}, milliseconds(20));
  }
  if (stopped_) return deferred_.push_back([this, number] { signal(number); });
  if (hung_ || dying_) return;
  if (sim_.timeline.random.chance(sim_.plan.habits.slow_to_term)) {
    hung_ = true;
    return;
  }
  if (sim_.timeline.random.chance(sim_.plan.habits.traps_term))
    return die({{.signaled = false, .status = 0}}, milliseconds(300));
  die({{.signaled = true, .status = number}}, milliseconds(50));
}

void SimWorker::orphaned() {
  kill_sent_ = true;
  sim_.check.worker_killed(*this);
  reaped_ = [this](SimEnd) { host_.remove_process(pid_); };  // traind reaps it as a leftover
  die({{.signaled = true, .status = SIGKILL}}, milliseconds(20));
}

void SimWorker::vanish() {
  if (!alive_) return;
  longest_silence_ = longest_silence();
  alive_ = false;
  reaped_ = nullptr;
  sim_.check.worker_died(*this);
}

void SimWorker::die(SimEnd end, Duration within) {
  if (!alive_ || (dying_ && !kill_sent_)) return;
  dying_ = true;
  sim_.after(sim_.between(Duration{0}, within), [this, end] { gone(end); });
}

void SimWorker::gone(SimEnd end) {
  if (!alive_) return;
  longest_silence_ = longest_silence();
  alive_ = false;
  sim_.check.worker_died(*this);
  sim_.timeline.trace("node {} attempt {} rank {} {} {}", location_.node, location_.attempt.value,
                      location_.rank().value, end.status.signaled ? "killed by" : "exited with",
                      end.status.status);
  link_->close(0);
  Duration until_reaped = sim_.between(Duration{0}, milliseconds(2));
  if (sim_.unlucky(Site::ReapedLate)) until_reaped += sim_.between(Duration{0}, milliseconds(500));
  sim_.after(until_reaped * host_.slow, [this, end] {
    if (reaped_) reaped_(end);
  });
}

}  // namespace train::sim
