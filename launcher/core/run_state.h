// The states of a run, what moves it from one to another, and facts about each state. The table in
// run_state.cc is the documentation. A pair that it lacks is a bug, and the failure names both.
#pragma once

#include <string_view>

namespace train {

enum class RunState {
  Attaching,   // an earlier launcher's attempt may still run: we look for its supervisors
  Scheduling,  // waiting for nodes with room
  Preparing,   // supervisors start, the master port is bound
  Starting,    // workers are spawned
  Running,
  Pausing,      // a graceful stop: ranks meet at one report, and checkpoint there
  TearingDown,  // workers stop; their last reports, output and checkpoints arrive
  Finished,     // every rank ended with 0, or a stop condition was met
  Errored,      // no restart is left, or none would help
  Stopped,      // somebody asked: Ctrl-C, SIGTERM, train-run stop
};

enum class RunTrigger {
  GroupFound,
  NodesGranted,
  AllPrepared,
  AllStarted,
  PauseAsked,
  GroupEnding,
  RestartDecided,
  EndedWell,
  GaveUp,
  EndedByRequest,
};

std::string_view to_string(RunState state);
std::string_view to_string(RunTrigger trigger);

struct RunStateFacts {
  bool terminal = false;
  bool has_attempt = false;  // an attempt's supervisors exist, or have been asked for
  bool accepts_reports = false;
};
RunStateFacts facts(RunState state);

/// Return the state that `trigger` leads to from `state`. TRAIN_CHECKs that the table has the pair.
RunState next_state(RunState state, RunTrigger trigger);

}  // namespace train
