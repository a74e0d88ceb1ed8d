// How the run of a program that runs alone has ended.
#include "launcher/cluster/run/solo_end.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace train {
namespace {

TEST(SoloEnd, OfAProgramThatNobodyStops) {
  EXPECT_EQ(outcome_of({.status = 0}), Outcome::Succeeded);
  EXPECT_EQ(outcome_of({.status = 1}), Outcome::Failed);
  EXPECT_EQ(outcome_of({.signaled = true, .status = SIGSEGV}), Outcome::Failed);
  EXPECT_EQ(outcome_of({.signaled = true, .status = SIGTERM}), Outcome::Failed);
  EXPECT_EQ(outcome_of({.started = false}), Outcome::Failed);
}

TEST(SoloEnd, ByCtrlC) {
  EXPECT_EQ(outcome_of({.signaled = true, .status = SIGINT}), Outcome::Interrupted);
  EXPECT_EQ(outcome_of({.status = 130}), Outcome::Interrupted);
  EXPECT_EQ(outcome_of({.status = SIGINT}), Outcome::Failed) << "an exit code";
}

TEST(SoloEnd, OfAProgramThatIsToStop) {
  for (const Outcome asked : {Outcome::Succeeded, Outcome::Preempted}) {
    EXPECT_EQ(outcome_of({.status = 0, .asked_for = asked}), asked);
    EXPECT_EQ(outcome_of({.signaled = true, .status = SIGTERM, .asked_for = asked}), asked);
    EXPECT_EQ(outcome_of({.status = 3, .after_our_signal = true, .asked_for = asked}), asked);
    EXPECT_EQ(outcome_of({.status = 3, .asked_for = asked}), Outcome::Failed)
        << "it failed before it was stopped";
    EXPECT_EQ(outcome_of({.signaled = true, .status = SIGSEGV, .asked_for = asked}),
              Outcome::Failed);
  }
}

}  // namespace
}  // namespace train
