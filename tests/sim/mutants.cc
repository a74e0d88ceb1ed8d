#include "tests/sim/mutants.h"

namespace train::sim {

std::string_view to_string(Mutant mutant) {
  static constexpr std::string_view kNames[kMutants] = {
      "None",
      "OffByOneRank",
      "GenerationNotChecked",
      "RestartBeforeGone",
      "ReturnedNodeTrusted",
      "OrphansForgotten",
      "BarrierOpensEarly",
      "ShardMissing",
      "ShardOfAnotherStep",
      "RestoresOldCheckpoint",
      "CheckpointNumberTwice",
      "AckBeforeWrite",
      "ReportsTakenTwice",
      "NothingSaidAgain",
      "FramesPassOutOfStep",
      "BudgetNotCounted",
      "BudgetCutShort",
      "WrongEnd",
      "WindowNotKept",
      "WallClockInTimers",
      "DeadlinesForgotten",
      "KillNotSent",
      "ConditionForgotten",
      "SuspectIsDead",
      "VerdictIsEarly",
      "SilenceIsNoTimeout",
      "AcksForgotten",
      "JournalNotSynced",
      "ValidationForgotten",
      "LackOfSpaceForgotten",
      "CheckpointOnArrival",
      "GenerationNotRaised",
      "RoomIsAFailure",
      "LeavesAreEnds",
      "SamplesForgotten",
      "HangsObserved",
      "StuckLookAsleep",
      "WaitersAccused",
      "SignsForgotten",
      "PhaseLimitForgotten",
      "RunsPastTheQuestion",
      "AnotherCheckpointNamed",
      "AnswersForgotten",
      "TimeBookedTwice",
      "RosterOfAnotherAttempt",
      "RosterNotRepeated",
      "ServingForgotten",
      "EndBeforeReports",
  };
  return kNames[static_cast<int>(mutant)];
}

}  // namespace train::sim
