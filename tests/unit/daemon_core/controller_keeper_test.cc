#include "daemon/core/controller_keeper.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr ControllerEnd kKilled{ControllerEnd::How::Killed, 0, false};

ControllerEnd exited(int code) { return {ControllerEnd::How::Exited, code, false}; }

TEST(ControllerKeeper, StartsAKilledOneAgainAtOnce) {
  EXPECT_EQ(ControllerKeeper().ended(kKilled, seconds(5)), Duration{0});
}

TEST(ControllerKeeper, StartsOneAgainThatSaysItHasABug) {
  EXPECT_EQ(ControllerKeeper().ended(exited(70), seconds(5)), Duration{0});
}

TEST(ControllerKeeper, StartsOneAgainWhoseEndNobodySaw) {
  EXPECT_EQ(ControllerKeeper().ended(ControllerEnd{}, seconds(5)), Duration{0});
}

TEST(ControllerKeeper, AnyOtherEndIsTheEnd) {
  for (const int code : {0, 1, 69, 71, 75, 78, 130, 137})
    EXPECT_EQ(ControllerKeeper().ended(exited(code), seconds(5)), std::nullopt) << code;
}

TEST(ControllerKeeper, ARunThatHasEndedIsNotBegunAgain) {
  for (ControllerEnd end : {kKilled, exited(70), ControllerEnd{}}) {
    end.run_ended = true;
    EXPECT_EQ(ControllerKeeper().ended(end, seconds(5)), std::nullopt);
  }
}

TEST(ControllerKeeper, PausesLongerAfterEachFailureInARow) {
  ControllerKeeper keeper;
  for (const int pause : {0, 1, 2, 4, 8, 16, 30, 30})
    EXPECT_EQ(keeper.ended(kKilled, seconds(1)), Duration(seconds(pause)));
}

TEST(ControllerKeeper, AMinuteOfLifeMakesUpForAllFailuresBefore) {
  ControllerKeeper keeper;
  for (int i = 0; i < 100; ++i) keeper.ended(kKilled, seconds(1));

  EXPECT_EQ(keeper.ended(kKilled, seconds(60)), Duration{0});
  EXPECT_EQ(keeper.ended(kKilled, seconds(59)), Duration(seconds(1)));
}

}  // namespace
}  // namespace train
