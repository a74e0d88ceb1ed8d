// Deliberate bugs, one at a time, by which the checkers are checked: the simulated shells commit
// them around the real cores. Each names the invariant that finds it first.
#pragma once

#include <string_view>

namespace train::sim {

enum class Mutant {
  None,
  OffByOneRank,           // S3: the plan of the second node begins one rank too late
  GenerationNotChecked,   // S1: traind takes whoever attached last
  RestartBeforeGone,      // S2: a stopping node counts as empty at once
  OrphansForgotten,       // S2: a supervisor without a launcher waits for ever
  BarrierOpensEarly,      // S4: the last rank is taken for one that has joined
  ShardMissing,           // S7: a checkpoint is committed without its last rank
  RestoresOldCheckpoint,  // S6
  CheckpointNumberTwice,  // S5: a failed commit's number is given again
  AckBeforeWrite,         // S8: reports are acknowledged before they are on disk
  ReportsTakenTwice,      // S8: what was sent again is written again
  NothingSaidAgain,       // L1: a supervisor forgets what a broken link lost
  FramesPassOutOfStep,   // S8: traind passes frames before the supervisor has said everything again
  BudgetNotCounted,      // S10
  WrongEnd,              // S11: a stopped run counts as finished
  WindowNotKept,         // S12: workers do not wait for acknowledgements
  WallClockInTimers,     // S14: the pause before calling again is counted by the wall clock
  DeadlinesForgotten,    // L1: the controller is never told that time has passed
  KillNotSent,           // L2: nobody sends SIGKILL
  SuspectIsDead,         // L3: one missing heartbeat is a death
  VerdictIsEarly,        // L3: a silent node is given half of its time
  SilenceIsNoTimeout,    // L3: silence is never a death
  AcksForgotten,         // L4: reports are never acknowledged
  JournalNotSynced,      // S2: what the journal holds is lost with the launcher
  ValidationForgotten,   // L5: nobody orders one
  LackOfSpaceForgotten,  // S15: nobody is told why a checkpoint was not stored
  GenerationNotRaised,   // S1: the next launcher takes the generation of the last
  EndBeforeReports,  // L4, one seed in 5,000: the journal knows of an end before its reports are on
                     // disk
};
inline constexpr int kMutants = static_cast<int>(Mutant::EndBeforeReports) + 1;
std::string_view to_string(Mutant mutant);

}  // namespace train::sim
