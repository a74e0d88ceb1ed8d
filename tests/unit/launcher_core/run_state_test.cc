#include "launcher/core/run_state.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

namespace train {
namespace {

using S = RunState;
using T = RunTrigger;

const std::map<std::pair<S, T>, S> kExpected{
    {{S::Scheduling, T::NodesGranted}, S::Preparing},
    {{S::Scheduling, T::GaveUp}, S::Errored},
    {{S::Scheduling, T::EndedByRequest}, S::Stopped},
    {{S::Scheduling, T::EndedWell}, S::Finished},
    {{S::Preparing, T::AllPrepared}, S::Starting},
    {{S::Preparing, T::GroupEnding}, S::TearingDown},
    {{S::Starting, T::AllStarted}, S::Running},
    {{S::Starting, T::GroupEnding}, S::TearingDown},
    {{S::Running, T::PauseAsked}, S::Pausing},
    {{S::Attaching, T::GroupFound}, S::Running},
    {{S::Attaching, T::PauseAsked}, S::Pausing},
    {{S::Attaching, T::GroupEnding}, S::TearingDown},
    {{S::Running, T::GroupEnding}, S::TearingDown},
    {{S::Pausing, T::GroupEnding}, S::TearingDown},
    {{S::TearingDown, T::RestartDecided}, S::Scheduling},
    {{S::TearingDown, T::EndedWell}, S::Finished},
    {{S::TearingDown, T::GaveUp}, S::Errored},
    {{S::TearingDown, T::EndedByRequest}, S::Stopped},
};

TEST(RunState, EveryPairOfTheTableLeadsWhereItSays) {
  for (const auto& [pair, to] : kExpected)
    EXPECT_EQ(next_state(pair.first, pair.second), to)
        << to_string(pair.first) << " " << to_string(pair.second);
}

TEST(RunStateDeathTest, EveryOtherPairIsABugThatNamesBoth) {
  testing::FLAGS_gtest_death_test_style = "fast";
  for (int s = 0; s <= static_cast<int>(S::Stopped); ++s) {
    for (int t = 0; t <= static_cast<int>(T::EndedByRequest); ++t) {
      const auto state = static_cast<S>(s);
      const auto trigger = static_cast<T>(t);
      if (kExpected.count({state, trigger}) != 0) continue;
      const std::string text = "no transition for " + std::string(to_string(trigger)) +
                               " in state " + std::string(to_string(state));
      EXPECT_DEATH(next_state(state, trigger), text);
    }
  }
}

TEST(RunState, OnlyTheThreeEndsAreTerminal) {
  for (int s = 0; s <= static_cast<int>(S::Stopped); ++s) {
    const auto state = static_cast<S>(s);
    const bool is_end = state == S::Finished || state == S::Errored || state == S::Stopped;
    EXPECT_EQ(facts(state).terminal, is_end) << to_string(state);
    EXPECT_EQ(facts(state).has_attempt, !is_end && state != S::Scheduling) << to_string(state);
  }
}

}  // namespace
}  // namespace train
