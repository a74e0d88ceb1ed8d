#include "launcher/core/search/search_controller.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "lib/base/overloaded.h"

namespace train {

void PrintTo(const SearchAction& action, std::ostream* out) {
  std::visit(Overloaded{[&](const AskSearcher& ask) { *out << "ask " << ask.trial; },
                        [&](const StartTrial& start) { *out << "start " << start.trial; },
                        [&](const StopTrial& stop) { *out << "stop " << stop.trial; },
                        [&](const ExploitTrial& one) { *out << "exploit " << one.exploit.trial; },
                        [&](const EndSearch& end) { *out << "end " << end.code << end.cause; }},
             action);
}

namespace {

using Actions = std::vector<SearchAction>;

SearchSpec four_trials(SchedulerSpec scheduler = {}) {
  return {.metric = "loss",
          .num_trials = 4,
          .max_concurrent_trials = 2,
          .parameters = {{.path = "x", .kind = ParameterKind::Uniform, .low = 0, .high = 1}},
          .scheduler = scheduler};
}

const AshaSpec kAsha{.max_time = 4, .divisor = 2, .mode = AshaMode::Aggressive};

void start(SearchController& search, int trials) {
  for (int trial = 0; trial < trials; ++trial)
    search.handle(TrialStarted{static_cast<int>(search.trials().size())});
}
TrialEnded failed(int trial, const std::string& cause = "rank 0 on node-1 exited with code 7") {
  return {trial, TrialEnd::Failed, 7, cause};
}

TEST(SearchController, StartsAsManyAsMayRun) {
  SearchController search(four_trials());
  EXPECT_EQ(search.next_actions(), (Actions{StartTrial{0}, StartTrial{1}}));
  start(search, 2);
  EXPECT_EQ(search.next_actions(), Actions{});
  search.handle(TrialEnded{0});
  EXPECT_EQ(search.next_actions(), (Actions{StartTrial{2}}));
  search.limit_trials(1);
  EXPECT_EQ(search.next_actions(), Actions{}) << "no more fit";
}

TEST(SearchController, EndsWhenNothingIsLeft) {
  SearchController search(four_trials());
  start(search, 4);
  for (int trial = 0; trial < 4; ++trial) {
    EXPECT_EQ(search.next_actions(), Actions{});
    search.handle(trial == 2 ? failed(trial) : TrialEnded{trial});
  }
  EXPECT_EQ(search.next_actions(), (Actions{EndSearch{}}));
  EXPECT_EQ(search.next_actions(), Actions{}) << "each action once";
}

TEST(SearchController, StopsWhatTheSchedulerHasHadEnoughOf) {
  SearchController search(four_trials(kAsha));
  start(search, 2);
  const TrialReported good{0, 1, 0.5}, between{0, 1.5, 9}, bad{1, 1, 0.6};
  EXPECT_TRUE(search.is_decisive(good));
  search.handle(good);
  EXPECT_FALSE(search.is_decisive(between));
  search.handle(between);
  search.handle(bad);
  EXPECT_EQ(search.next_actions(), (Actions{StopTrial{1, "others were better at that time"}}));
  EXPECT_EQ(search.next_actions(), Actions{});
  EXPECT_FALSE(search.is_decisive({1, 2, 0.1})) << "nothing counts once that is decided";
}

TEST(SearchController, ReportsThatAreRepeatedChangeNothing) {
  SearchController search(four_trials(kAsha));
  start(search, 2);
  search.handle(TrialReported{0, 1, 0.5});
  search.handle(TrialReported{0, 1, 0.1});  // once more, after a restart
  search.handle(TrialReported{1, 1, 0.4});
  EXPECT_EQ(search.next_actions(), Actions{}) << "0.4 is better than 0.5";
  EXPECT_EQ(search.trials()[0].best, 0.1);
}

TEST(SearchController, KnowsTheBest) {
  SearchController search(four_trials());
  start(search, 4);
  EXPECT_EQ(search.best(), std::nullopt);
  search.handle(TrialReported{0, 1, 0.5});
  search.handle(TrialReported{1, 1, std::nan("")});
  search.handle(TrialReported{2, 1, 0.1});
  search.handle(TrialReported{2, 2, 0.9});
  search.handle(TrialReported{3, 1, 0.01});
  search.handle(failed(3));
  EXPECT_EQ(search.best(), 2);
  EXPECT_EQ(search.trials()[2].best_time, 1);
  EXPECT_EQ(search.trials()[2].value, 0.9);
}

TEST(SearchController, TriesAnotherInPlaceOfAnInvalidOne) {
  SearchController search(four_trials());
  start(search, 2);
  search.handle(TrialEnded{0, TrialEnd::Invalid, 78});
  EXPECT_EQ(search.trials_in_all(), 5);
  // But not without end.
  SearchController invalid(four_trials());
  for (int trial = 0; trial < 8; ++trial) {
    start(invalid, 1);
    invalid.handle(TrialEnded{trial, TrialEnd::Invalid, 78, std::string(1, char('a' + trial))});
  }
  EXPECT_EQ(invalid.trials_in_all(), 8);
  EXPECT_EQ(invalid.next_actions(), (Actions{EndSearch{78, "all trials failed; the first: a"}}));
}

TEST(SearchController, IsGivenUpIfTheFirstThreeFailAlike) {
  SearchController search(four_trials());
  start(search, 4);
  search.handle(failed(0, "rank 0 on node-1 exited with code 7"));
  search.handle(failed(2, "rank 1 on node-2 exited with code 7"));
  EXPECT_EQ(search.next_actions(), Actions{});
  search.handle(failed(1, "rank 0 on node-1 exited with code 7"));
  EXPECT_EQ(search.next_actions(), (Actions{StopTrial{3, "the sweep is given up"}}));
  search.handle(TrialEnded{3, TrialEnd::Stopped});
  EXPECT_EQ(search.next_actions(),
            (Actions{EndSearch{7,
                               "the first 3 trials failed alike: rank 0 on node-1 exited with "
                               "code 7"}}));
}

TEST(SearchController, GoesOnIfOneOfTheFirstThreeFailedOtherwise) {
  for (const TrialEnded& other :
       {TrialEnded{1}, failed(1, "rank 0 on node-1 was killed"),
        TrialEnded{1, TrialEnd::Failed, 9, "rank 0 on node-1 exited with code 9"}}) {
    SearchController search(four_trials());
    start(search, 3);
    search.handle(failed(0));
    search.handle(other);
    search.handle(failed(2));
    EXPECT_EQ(search.next_actions(), (Actions{StartTrial{3}}));
  }
}

// ---- population based training

/// Four trials that have begun.
SearchController population() {
  SearchController search(
      {.metric = "loss",
       .num_trials = 4,
       .parameters = {{.path = "x", .kind = ParameterKind::Choice, .values = {1, 2, 3}}},
       .scheduler = PbtSpec{.interval = 10}});
  start(search, 4);
  return search;
}
TrialCheckpointed checkpointed(int trial, double time, double value, int part = 1) {
  return {trial, part, {time, value, std::to_string(trial) + "-" + std::to_string(part)}};
}

/// Let all come to time 10, the worst first, so that each is the best when it does.
void all_checkpointed(SearchController& search) {
  for (int trial = 3; trial >= 0; --trial) search.handle(checkpointed(trial, 10, trial));
}

TEST(SearchController, AWorseTrialGoesOnFromABetterOnesCheckpoint) {
  SearchController search = population();
  EXPECT_FALSE(search.wants_checkpoint(0, 9));
  EXPECT_TRUE(search.wants_checkpoint(0, 10));
  all_checkpointed(search);
  EXPECT_EQ(search.needed_checkpoints(), (std::set<std::string>{"0-1", "1-1", "2-1", "3-1"}));
  EXPECT_EQ(search.next_actions(), Actions{});
  search.handle(checkpointed(2, 20, 2));
  EXPECT_EQ(search.next_actions(), Actions{}) << "it is not the worst";
  search.handle(checkpointed(3, 20, 5));

  const auto actions = search.next_actions();
  ASSERT_EQ(actions.size(), 1U);
  const TrialExploited exploit = std::get<ExploitTrial>(actions[0]).exploit;
  EXPECT_EQ(exploit.trial, 3);
  EXPECT_EQ(exploit.part, 2);
  EXPECT_EQ(exploit.from, 0);
  EXPECT_EQ(exploit.time, 10);
  EXPECT_EQ(exploit.checkpoint, "0-1");
  EXPECT_EQ(search.next_actions(), actions) << "until it is done";
  search.handle(exploit);
  EXPECT_EQ(search.next_actions(), Actions{});

  const TrialState& trial = search.trials()[3];
  EXPECT_EQ(trial.part, 2);
  EXPECT_EQ(trial.values, exploit.values);
  EXPECT_FALSE(search.wants_checkpoint(3, 19));
  EXPECT_TRUE(search.wants_checkpoint(3, 20));
  search.handle(checkpointed(3, 30, 0, /*part=*/1));
  EXPECT_TRUE(search.wants_checkpoint(3, 20)) << "its first part counts no more";
  search.handle(TrialEnded{0});
  EXPECT_TRUE(search.needed_checkpoints().contains("0-1")) << "trial 3 may still need it";
  search.handle(TrialEnded{3});
  EXPECT_FALSE(search.needed_checkpoints().contains("0-1"));
}

TEST(SearchController, ATrialThatEndsTakesNothingOver) {
  SearchController search = population();
  all_checkpointed(search);
  search.handle(checkpointed(3, 20, 5));
  search.handle(TrialEnded{3});
  EXPECT_EQ(search.next_actions(), Actions{});
}

TEST(SearchController, TheBestValueRemembersItsPart) {
  SearchController search = population();
  search.handle(TrialReported{3, 5, 0.5});
  all_checkpointed(search);
  search.handle(checkpointed(3, 20, 5));
  search.handle(std::get<ExploitTrial>(search.next_actions().at(0)).exploit);
  search.handle(TrialReported{3, 11, 0.75});
  EXPECT_EQ(search.trials()[3].best_part, 1);
  search.handle(TrialReported{3, 12, 0.25});
  EXPECT_EQ(search.trials()[3].best_part, 2);
}

TEST(SearchController, OnlyTheBestKeepTheirCheckpoints) {
  SearchSpec spec = four_trials();
  SearchController all(spec);
  start(all, 1);
  all.handle(TrialEnded{0});
  EXPECT_EQ(all.trials_to_clear(), std::vector<int>{});

  spec.keep_trials = 1;
  SearchController search(spec);
  start(search, 4);
  search.handle(TrialReported{0, 1, 0.5});
  search.handle(TrialReported{1, 1, 0.25});
  search.handle(TrialReported{2, 1, 0.125});
  EXPECT_EQ(search.trials_to_clear(), std::vector<int>{}) << "none has ended";
  search.handle(TrialEnded{0});
  EXPECT_EQ(search.trials_to_clear(), std::vector<int>{}) << "the best that has ended";
  search.handle(TrialEnded{1});
  EXPECT_EQ(search.trials_to_clear(), std::vector<int>{0}) << "worse";
  search.handle(failed(2));
  search.handle(TrialEnded{3});
  EXPECT_EQ(search.trials_to_clear(), (std::vector<int>{0, 2, 3}))
      << "failed, without a value, worse";

  SearchController equal(spec);
  start(equal, 2);
  equal.handle(TrialReported{0, 1, 0.5});
  equal.handle(TrialReported{1, 1, 0.5});
  equal.handle(TrialEnded{1});
  equal.handle(TrialEnded{0});
  EXPECT_EQ(equal.best(), 0);
  EXPECT_EQ(equal.trials_to_clear(), std::vector<int>{1}) << "the best one keeps its own";
}

TEST(SearchController, GoesOnWithMoreTrials) {
  SearchController search(four_trials());
  start(search, 4);
  for (int trial = 0; trial < 4; ++trial) search.handle(TrialEnded{trial});
  EXPECT_EQ(search.next_actions(), (Actions{EndSearch{}}));
  EXPECT_TRUE(search.may_have_more());
  search.handle(MoreTrials{1});
  EXPECT_EQ(search.trials_in_all(), 5);
  EXPECT_EQ(search.next_actions(), (Actions{StartTrial{4}}));
  search.handle(MoreTrials{kTrialsMax});
  EXPECT_EQ(search.trials_in_all(), kTrialsMax);

  SearchSpec grid = four_trials();
  grid.search = SearchKind::Grid;
  EXPECT_FALSE(SearchController(grid).may_have_more());
}

SearchSpec searched() {
  SearchSpec spec = four_trials();
  spec.search = SearchKind::Command;
  spec.command = {"search"};
  return spec;
}

TEST(SearchController, AsksTheSearcherForOneTrialAfterAnother) {
  SearchController search(searched());
  EXPECT_EQ(search.next_actions(), (Actions{AskSearcher{0}}));
  EXPECT_EQ(search.next_actions(), Actions{}) << "it thinks";
  search.handle(TrialProposed{1, {{"x", 0.5}}});
  EXPECT_EQ(search.next_actions(), Actions{}) << "not the one that was asked for";
  search.handle(TrialProposed{0, {{"x", 0.25}}});
  EXPECT_EQ(search.next_actions(), (Actions{StartTrial{0, {{"x", 0.25}}}}));
  search.handle(TrialStarted{0, {{"x", 0.25}}});
  EXPECT_EQ(search.trials()[0].values, (boost::json::object{{"x", 0.25}}));
  EXPECT_EQ(search.next_actions(), (Actions{AskSearcher{1}}));
  search.handle(TrialProposed{1, {{"x", 1}}});
  search.handle(TrialStarted{1, {{"x", 1}}});
  EXPECT_EQ(search.next_actions(), Actions{}) << "two at once";
  search.handle(TrialEnded{0, TrialEnd::Invalid});
  EXPECT_EQ(search.next_actions(), (Actions{AskSearcher{2}}));
  EXPECT_EQ(search.trials_in_all(), 5) << "one more for the invalid one";
}

TEST(SearchController, EndsWhenTheSearcherWantsNoMore) {
  SearchController search(searched());
  search.handle(TrialStarted{0, {{"x", 0.25}}});
  EXPECT_EQ(search.next_actions(), (Actions{AskSearcher{1}}));
  search.handle(TrialProposed{1, {{"x", 1}}});
  search.handle(SearcherDone{});
  EXPECT_EQ(search.next_actions(), (Actions{StartTrial{1, {{"x", 1}}}})) << "proposed before";
  search.handle(TrialStarted{1, {{"x", 1}}});
  search.handle(TrialEnded{0});
  EXPECT_EQ(search.next_actions(), Actions{});
  search.handle(TrialEnded{1});
  EXPECT_EQ(search.next_actions(), (Actions{EndSearch{}}));

  SearchController none(searched());
  none.handle(SearcherDone{});
  EXPECT_EQ(none.next_actions(), (Actions{EndSearch{1, "the searcher proposed no trial"}}));
}

TEST(SearchController, StopsWhatTheSearcherHasHadEnoughOf) {
  SearchController search(searched());
  search.handle(TrialStarted{0, {{"x", 0.25}}});
  EXPECT_TRUE(search.may_stop(0));
  EXPECT_FALSE(search.may_stop(1));
  search.handle(TrialPruned{1});
  search.handle(TrialPruned{0});
  EXPECT_FALSE(search.may_stop(0));
  EXPECT_EQ(search.next_actions(),
            (Actions{StopTrial{0, "the searcher stops it"}, AskSearcher{1}}));
}

}  // namespace
}  // namespace train
