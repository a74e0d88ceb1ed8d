#include "daemon/core/controller_restart_policy.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr ControllerEnd kKilled{ControllerEnd::How::Killed, 0, false};

ControllerEnd exited(int code) { return {ControllerEnd::How::Exited, code, false}; }

TEST(ControllerRestartPolicy, StartsAKilledOneAgainAtOnce) {
  EXPECT_EQ(ControllerRestartPolicy().ended(kKilled, seconds(5)), Duration{0});
}

TEST(ControllerRestartPolicy, StartsOneAgainThatSaysItHasABug) {
  EXPECT_EQ(ControllerRestartPolicy().ended(exited(70), seconds(5)), Duration{0});
}

TEST(ControllerRestartPolicy, StartsOneAgainWhoseEndNobodySaw) {
  EXPECT_EQ(ControllerRestartPolicy().ended(ControllerEnd{}, seconds(5)), Duration{0});
}

TEST(ControllerRestartPolicy, AnyOtherEndIsTheEnd) {
  for (const int code : {0, 1, 69, 71, 75, 78, 130, 137})
    EXPECT_EQ(ControllerRestartPolicy().ended(exited(code), seconds(5)), std::nullopt) << code;
}

TEST(ControllerRestartPolicy, ARunThatHasEndedIsNotBegunAgain) {
  for (ControllerEnd end : {kKilled, exited(70), ControllerEnd{}}) {
    end.run_ended = true;
    EXPECT_EQ(ControllerRestartPolicy().ended(end, seconds(5)), std::nullopt);
  }
}

TEST(ControllerRestartPolicy, PausesLongerAfterEachFailureInARow) {
  ControllerRestartPolicy policy;
  for (const int pause : {0, 1, 2, 4, 8, 16, 30, 30})
    EXPECT_EQ(policy.ended(kKilled, seconds(1)), Duration(seconds(pause)));
}

TEST(ControllerRestartPolicy, AMinuteOfLifeMakesUpForAllFailuresBefore) {
  ControllerRestartPolicy policy;
  for (int i = 0; i < 100; ++i) policy.ended(kKilled, seconds(1));

  EXPECT_EQ(policy.ended(kKilled, seconds(60)), Duration{0});
  EXPECT_EQ(policy.ended(kKilled, seconds(59)), Duration(seconds(1)));
}

}  // namespace
}  // namespace train
