#include "launcher/core/run_state.h"

#include <fmt/format.h>

#include <array>

#include "lib/base/check.h"

namespace train {
namespace {

struct Transition {
  RunState from;
  RunTrigger trigger;
  RunState to;
};

using S = RunState;
using T = RunTrigger;
constexpr std::array kTransitions{
    Transition{S::Attaching, T::GroupFound, S::Running},
    Transition{S::Attaching, T::PauseAsked, S::Pausing},
    Transition{S::Attaching, T::GroupEnding, S::TearingDown},
    Transition{S::Scheduling, T::NodesGranted, S::Preparing},
    Transition{S::Scheduling, T::GaveUp, S::Errored},  // it will never fit
    Transition{S::Scheduling, T::EndedByRequest, S::Stopped},
    Transition{S::Scheduling, T::EndedWell,
               S::Finished},  // the failed attempt had met a stop condition
    Transition{S::Preparing, T::AllPrepared, S::Starting},
    Transition{S::Preparing, T::GroupEnding, S::TearingDown},
    Transition{S::Starting, T::AllStarted, S::Running},
    Transition{S::Starting, T::GroupEnding, S::TearingDown},
    Transition{S::Running, T::PauseAsked, S::Pausing},
    Transition{S::Running, T::GroupEnding, S::TearingDown},
    Transition{S::Pausing, T::GroupEnding, S::TearingDown},
    Transition{S::TearingDown, T::RestartDecided, S::Scheduling},
    Transition{S::TearingDown, T::EndedWell, S::Finished},
    Transition{S::TearingDown, T::GaveUp, S::Errored},
    Transition{S::TearingDown, T::EndedByRequest, S::Stopped},
};

struct Row {
  RunState state;
  std::string_view name;
  RunStateFacts facts;
};
constexpr std::array kStates{
    Row{S::Attaching, "attaching", {.has_attempt = true, .accepts_reports = true}},
    Row{S::Scheduling, "scheduling", {}},
    Row{S::Preparing, "preparing", {.has_attempt = true}},
    Row{S::Starting, "starting", {.has_attempt = true, .accepts_reports = true}},
    Row{S::Running, "running", {.has_attempt = true, .accepts_reports = true}},
    Row{S::Pausing, "pausing", {.has_attempt = true, .accepts_reports = true}},
    Row{S::TearingDown, "tearing_down", {.has_attempt = true, .accepts_reports = true}},
    Row{S::Finished, "finished", {.terminal = true}},
    Row{S::Errored, "errored", {.terminal = true}},
    Row{S::Stopped, "stopped", {.terminal = true}},
};
constexpr std::array<std::string_view, 10> kTriggers{
    "group_found",  "nodes_granted",   "all_prepared", "all_started", "pause_asked",
    "group_ending", "restart_decided", "ended_well",   "gave_up",     "ended_by_request"};

}  // namespace

std::string_view to_string(RunState state) { return kStates[static_cast<std::size_t>(state)].name; }
std::string_view to_string(RunTrigger trigger) {
  return kTriggers[static_cast<std::size_t>(trigger)];
}
RunStateFacts facts(RunState state) { return kStates[static_cast<std::size_t>(state)].facts; }

RunState next_state(RunState state, RunTrigger trigger) {
  for (const Transition& row : kTransitions) {
    if (row.from == state && row.trigger == trigger) return row.to;
  }
  check_failed(
      __FILE__, __LINE__, "transition in table",
      fmt::format("no transition for {} in state {}", to_string(trigger), to_string(state)));
}

}  // namespace train
