// Deliberate bugs that check the checkers, one at a time. The simulated shells commit them around
// the real cores. Each comment names the invariant that finds the bug first.
#pragma once

#include <string_view>

namespace train::sim {

enum class Mutant {
  None,
  OffByOneRank,            // S3: the second node's plan begins one rank too late
  GenerationNotChecked,    // S1: traind obeys whoever attached last
  RestartBeforeGone,       // S2: a stopping node counts as empty immediately
  ReturnedNodeTrusted,     // S2: so does one that was lost before, and only that
  OrphansForgotten,        // S2: a supervisor without a launcher waits forever
  BarrierOpensEarly,       // S4: the last rank counts as joined before it has joined
  ShardMissing,            // S7: a checkpoint is committed without its last shard
  ShardOfAnotherStep,      // S7: the last rank makes its checkpoints one step later
  RestoresOldCheckpoint,   // S6
  CheckpointNumberTwice,   // S5: a failed commit's number is used again
  AckBeforeWrite,          // S8: reports are acknowledged before they are on disk
  ReportsTakenTwice,       // S8: resent reports are written again
  NothingSaidAgain,        // L1: a supervisor forgets what a broken link lost
  FramesPassOutOfStep,     // S8: traind passes frames before the supervisor has resent everything
  BudgetNotCounted,        // S10
  BudgetCutShort,          // S10: one restart less than max_failures
  WrongEnd,                // S11: a stopped run counts as finished
  WindowNotKept,           // S12: workers do not wait for acknowledgements
  WallClockInTimers,       // S14: the pause before a redial depends on the wall clock
  DeadlinesForgotten,      // L1: the controller never hears that time has passed
  KillNotSent,             // L2: nobody sends SIGKILL
  ConditionForgotten,      // L2: a stop condition that is met stops nobody
  SuspectIsDead,           // L3: one missing heartbeat is a death
  VerdictIsEarly,          // L3: a silent node is given half of its time
  SilenceIsNoTimeout,      // L3: silence never counts as a death
  AcksForgotten,           // L4: reports are never acknowledged
  JournalNotSynced,        // S2: the journal's contents are lost with the launcher
  ValidationForgotten,     // L5: nobody orders a validation
  LackOfSpaceForgotten,    // S15: nobody hears why a checkpoint was not stored
  CheckpointOnArrival,     // S16: a rank makes a stop's checkpoint before all ranks are there
  GenerationNotRaised,     // S1: the next launcher reuses the last one's generation
  RoomIsAFailure,          // S17: traind does not tell that only room is lacking
  LeavesAreEnds,           // S11: nobody hears that a rank had been told to leave
  SamplesForgotten,        // L6: supervisors send no samples
  HangsObserved,           // L6: a hang ends no group
  StuckLookAsleep,         // L6: a worker that cannot be killed seems to be in no hurry
  WaitersAccused,          // S18: a rank that waits in a collective call seems to compute
  SignsForgotten,          // S18: a rank seems silent since its start
  PhaseLimitForgotten,     // S18: hang_timeout holds for every phase
  RunsPastTheQuestion,     // S16: a rank that was asked where it is goes on meanwhile
  AnotherCheckpointNamed,  // S19: who asked for a checkpoint is told of the one before
  AnswersForgotten,        // L7: nobody passes on what a request has led to
  TimeBookedTwice,         // S20: training counts twice
  PaceNotKept,             // S22: reports are acknowledged before the driver has
  PaceOutlivesDriver,      // L1: ranks wait for a driver that is dead
  PaceOutlivesRank,        // L4: ranks wait for rounds that will never be complete
  RosterOfAnotherAttempt,  // S21: the next attempt's ranks are told of the first one's ingest
  RosterNotRepeated,       // L8: a rank that says hello late hears of no ingest worker
  ServingForgotten,        // L8: nobody hears that an ingest worker has replaced one that died
  EndBeforeReports,  // L4, one seed in 5,000: the journal records an end before its reports are on
                     // disk
};
inline constexpr int kMutants = static_cast<int>(Mutant::EndBeforeReports) + 1;
std::string_view to_string(Mutant mutant);

}  // namespace train::sim
