#include "tests/sim/worker.h"

#include <csignal>

#include "tests/sim/checkers.h"

namespace train::sim {

SimWorker::SimWorker(Timeline& timeline, Checkers& check, const Plan& plan, WorkerPlace place,
                     std::int64_t first_step)
    : timeline_(timeline), check_(check), plan_(plan), place_(place), step_(first_step) {}

void SimWorker::start(LinkPtr link, std::function<void(WaitStatus)> reaped) {
  link_ = std::move(link);
  reaped_ = std::move(reaped);
  link_->set_end(0, {[this](const SimFrame& frame) { received(frame); }, {}});
  if (!plan_.habits.has_sdk)
    return later(timeline_.random.between(milliseconds(100), seconds(5)), &SimWorker::go_on);
  later(timeline_.random.between(milliseconds(1), milliseconds(300)), &SimWorker::begin_step);
}

void SimWorker::later(Duration delay, void (SimWorker::*what)()) {
  timeline_.after(delay, [this, what] {
    if (alive_ && !dying_ && !hung_) (this->*what)();
  });
}

// The first step says hello first.
void SimWorker::begin_step() {
  if (ordinal_ == 0) send(WorkerJoined{place_.rank.value, "sim"});
  if (gate_.finished()) return leave(0);
  if (step_ >= plan_.habits.steps) return leave(0);
  const auto duration = timeline_.random.between(plan_.habits.step_min, plan_.habits.step_max);
  later(duration, plan_.habits.barrier_every != 0 && (step_ + 1) % plan_.habits.barrier_every == 0
                      ? &SimWorker::join_barrier
                      : &SimWorker::report);
}

void SimWorker::join_barrier() {
  if (gate_.finished()) return leave(0);
  in_barrier_ = true;
  ++barriers_;
  check_.joined_barrier(place_, barriers_);
  send(CollectiveJoin{place_.rank.value, barriers_, "barrier",
                      fmt::format("{}:{}", place_.rank.value, barriers_)});
}

void SimWorker::report() {
  if (gate_.finished()) return leave(0);
  ++step_;
  ++ordinal_;
  send(ReportBatch{place_.rank.value, ordinal_, 1, fmt::format("{}", step_)});
  if (plan_.habits.checkpoint_every != 0 && step_ % plan_.habits.checkpoint_every == 0)
    stage(ordinal_);
  in_report_ = true;
  after_report();
}

void SimWorker::stage(std::uint64_t ordinal) {
  ++checkpoint_index_;
  last_checkpoint_ordinal_ = ordinal;
  const bool fails = timeline_.random.chance(plan_.part_fails);
  send(CheckpointStaged{checkpoint_index_, ordinal, "", fmt::format("{}", step_), "",
                        fails ? "the disk is full" : ""});
}

// As SupervisedSession::report() waits.
void SimWorker::after_report() {
  if (!in_report_ || hung_ || dying_) return;
  const auto next = gate_.after_report(ordinal_);
  if (next == sdk::StopGate::Next::Stop) return leave(0);
  if (next == sdk::StopGate::Next::GoOn) {
    in_report_ = false;
    return go_on();
  }
  const bool at_target = next == sdk::StopGate::Next::Checkpoint;
  if (at_target && !stop_checkpoint_made_) {
    stop_checkpoint_made_ = true;
    if (plan_.habits.stop_checkpoint && last_checkpoint_ordinal_ != ordinal_) stage(ordinal_);
  }
  const std::pair here{ordinal_, at_target};
  if (announced_ == here) return;
  announced_ = here;
  send(WorkerPaused{place_.rank.value, ordinal_, checkpoint_index_});
}

void SimWorker::go_on() {
  if (!plan_.habits.has_sdk || step_ >= plan_.habits.steps) return leave(0);
  begin_step();
}

void SimWorker::received(const SimFrame& frame) {
  if (!alive_ || dying_ || hung_) return;
  if (const auto* result = std::get_if<CollectiveResult>(&frame.payload)) {
    if (!in_barrier_ || result->sequence != barriers_) return;  // answered twice
    in_barrier_ = false;
    if (!result->error.empty()) return gate_.finished() ? leave(0) : leave(1);
    check_.left_barrier(place_, barriers_, result->parts);
    return report();
  }
  if (const auto* pause = std::get_if<PauseWorkers>(&frame.payload)) {
    if (pause->step == "pause")
      gate_.pause();
    else if (pause->step == "advance")
      gate_.advance(pause->ordinal);
    else
      gate_.finish(pause->reason);
    if (in_barrier_ && gate_.finished()) return leave(0);
    after_report();
  }
}

void SimWorker::leave(int code) {
  if (code == 0 && plan_.habits.has_sdk) send(WorkerGoodbye{});
  check_.left(place_, code, stop_sent_ || gate_.stopping());
  die({.signaled = false, .status = code}, milliseconds(5));
}

void SimWorker::crash(int pick) {
  if (!alive_ || dying_) return;
  check_.crashed(place_);
  if (pick % 3 == 0)
    die({.signaled = true, .status = SIGSEGV}, Duration{0});
  else
    die({.signaled = false, .status = 1 + pick % 7}, Duration{0});
}

void SimWorker::signal(int number) {
  if (!alive_) return;
  stop_sent_ = true;
  if (number == SIGKILL) {
    kill_sent_ = true;
    return die({.signaled = true, .status = SIGKILL}, milliseconds(20));
  }
  if (hung_ || dying_) return;
  if (timeline_.random.chance(plan_.habits.slow_to_term)) {
    hung_ = true;
    return;
  }
  if (timeline_.random.chance(plan_.habits.traps_term))
    return die({.signaled = false, .status = 0}, milliseconds(300));
  die({.signaled = true, .status = number}, milliseconds(50));
}

void SimWorker::orphaned() {
  kill_sent_ = true;
  reaped_ = nullptr;
  die({.signaled = true, .status = SIGKILL}, milliseconds(20));
}

void SimWorker::die(WaitStatus status, Duration within) {
  if (!alive_ || (dying_ && !kill_sent_)) return;
  dying_ = true;
  timeline_.after(timeline_.random.between(Duration{0}, within), [this, status] {
    if (!alive_) return;
    alive_ = false;
    timeline_.trace("node {} attempt {} rank {} {} {}", place_.node, place_.attempt.value,
                    place_.rank.value, status.signaled ? "killed by" : "exited with",
                    status.status);
    link_->close(0);
    timeline_.after(timeline_.random.between(Duration{0}, milliseconds(2)), [this, status] {
      if (reaped_) reaped_(status);
    });
  });
}

}  // namespace train::sim
