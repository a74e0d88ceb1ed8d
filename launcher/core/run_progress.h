// Where a run stands: its state, the requested stop, and the actions so far for the event being
// handled. RunController and the AttemptController of its current attempt share it; every change of
// the state goes through it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/run_events.h"

namespace train {

struct Stop {
  StopKind kind;
  std::string reason;
};

class RunProgress {
 public:
  RunProgress(TimePoint now, RunState state) : now_(now), state_(state) {}

  void begin_event(TimePoint now) { now_ = now; }
  /// Return what the event, and before the first one the run's beginning, has led to.
  std::vector<RunAction> take_actions() { return std::exchange(actions_, {}); }

  TimePoint now() const { return now_; }
  RunState state() const { return state_; }
  const std::optional<Stop>& stop() const { return stop_; }
  /// Return whether somebody asked to stop. A stop condition of the spec does not count: with that,
  /// the run ends well.
  bool stop_requested() const { return stop_ && stop_->kind != StopKind::StopCondition; }
  void set_stop(Stop stop) { stop_ = std::move(stop); }

  void add(RunAction action) { actions_.push_back(std::move(action)); }
  void note(NoteLevel level, std::string text) { add(Note{level, std::move(text)}); }
  /// Make the transition for `trigger`, and announce it. TRAIN_CHECKs that there is one from here.
  void change_state(RunTrigger trigger, Attempt attempt, std::string reason, Duration wait = {});

 private:
  TimePoint now_;
  RunState state_;
  std::optional<Stop> stop_;
  std::vector<RunAction> actions_;
};

}  // namespace train
