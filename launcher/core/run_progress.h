// Where a run stands: its state, the stop that was asked for, and the actions that the event being
// handled has led to so far. RunController and the AttemptController of its current attempt share
// it; every change of the state goes through it.
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

  void begin_event(TimePoint now) {
    now_ = now;
    actions_.clear();
  }
  std::vector<RunAction> take_actions() { return std::move(actions_); }

  TimePoint now() const { return now_; }
  RunState state() const { return state_; }
  const std::optional<Stop>& stop() const { return stop_; }
  /// Return whether a stop was asked for that is no condition of the spec: the run does not end
  /// well by it.
  bool stop_requested() const { return stop_ && stop_->kind != StopKind::StopCondition; }
  void set_stop(Stop stop) { stop_ = std::move(stop); }

  void add(RunAction action) { actions_.push_back(std::move(action)); }
  void note(NoteLevel level, std::string text) { add(Note{level, std::move(text)}); }
  /// Go where `trigger` leads, and say so. TRAIN_CHECKs that it leads anywhere from here.
  void change_state(RunTrigger trigger, Attempt attempt, std::string reason);

 private:
  TimePoint now_;
  RunState state_;
  std::optional<Stop> stop_;
  std::vector<RunAction> actions_;
};

}  // namespace train
