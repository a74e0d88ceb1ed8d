#include "launcher/core/search/sweep_records.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

namespace train {
namespace {

SearchController two_trials() {
  SearchController search(
      {.metric = "loss",
       .num_trials = 2,
       .parameters = {{.path = "x", .values = {7}}},
       .scheduler = AshaSpec{.max_time = 4, .divisor = 2, .mode = AshaMode::Aggressive}});
  return search;
}

TEST(SweepRecords, AreReadAgain) {
  SearchController search = two_trials();
  std::vector<boost::json::object> records;
  const auto note = [&](const auto& event, const auto& record) {
    search.handle(event);
    records.push_back(record);
  };
  note(TrialStarted{0}, record_of(TrialStarted{0}, {{"x", 7}}));
  note(TrialStarted{1}, record_of(TrialStarted{1}, {{"x", 7}}));
  const TrialReported first{0, 2, 0.5}, second{1, 2, std::nan("")};
  note(first, record_of(first));
  note(second, record_of(second));
  search.handle(TrialReported{0, 2.5, 0.25});  // not decisive, so not recorded
  const TrialEnded end{0, TrialEnd::Failed, 7, "why"};
  note(end, record_of(end, search.trials()[0]));

  SearchController again = two_trials();
  for (const auto& record : records) EXPECT_TRUE(take_in(again, record));
  EXPECT_EQ(again.trials()[0].ended, end);
  EXPECT_EQ(again.trials()[0].best, 0.25);
  EXPECT_EQ(again.trials()[0].best_time, 2.5);
  EXPECT_EQ(again.trials()[0].values, search.trials()[0].values);
  EXPECT_TRUE(again.trials()[1].stops);
  EXPECT_TRUE(std::isnan(*again.trials()[1].value));
  EXPECT_EQ(boost::json::serialize(records[4]),
            R"({"event":"trial_ended","trial":0,"end":"failed","code":7,"cause":"why",)"
            R"("at":2.5E0,"value":2.5E-1,"best":2.5E-1,"best_at":2.5E0})");
}

TEST(SweepRecords, OfASearchersTrialsAreReadAgain) {
  SearchSpec spec{
      .metric = "loss",
      .search = SearchKind::Command,
      .command = {"search"},
      .num_trials = 3,
      .parameters = {{.path = "x", .kind = ParameterKind::Int, .least = 1, .greatest = 9},
                     {.path = "c", .values = {"k"}}}};
  SearchController search(spec);
  const boost::json::object values{{"x", 4}, {"c", "k"}};
  const auto started = record_of(TrialStarted{0, values}, values);
  EXPECT_TRUE(take_in(search, started));
  EXPECT_EQ(search.trials()[0].values, values);
  for (const char* wrong :
       {R"({"x": 4.5, "c": "k"})", R"({"c": "k"})", R"({"x": 4, "y": 1})", "[]"}) {
    boost::json::object record = started;
    record["trial"] = 1;
    record["parameters"] = boost::json::parse(wrong);
    EXPECT_FALSE(take_in(search, record)) << wrong;
  }
  EXPECT_FALSE(take_in(search, record_of(TrialPruned{1}))) << "there is none";
  EXPECT_TRUE(take_in(search, record_of(TrialPruned{0})));
  EXPECT_TRUE(search.trials()[0].pruned);
  EXPECT_TRUE(take_in(search, record_of(SearcherDone{})));
  EXPECT_EQ(search.trials_in_all(), 1);
  EXPECT_TRUE(take_in(search, record_of(MoreTrials{2})));
  EXPECT_EQ(search.trials_in_all(), 5);
  EXPECT_FALSE(take_in(search, {{"event", "more_trials"}, {"trials", -1}}));
}

SearchSpec population() {
  return {.metric = "loss",
          .num_trials = 2,
          .parameters = {{.path = "x", .kind = ParameterKind::Choice, .values = {1, 2, 3}}},
          .scheduler = PbtSpec{.interval = 10}};
}

TEST(SweepRecords, OfTrialsThatTakeOverAreReadAgain) {
  SearchController search(population()), again(population());
  std::vector<boost::json::object> records;
  for (int trial = 0; trial < 2; ++trial) {
    search.handle(TrialStarted{trial});
    records.push_back(record_of(TrialStarted{trial}, search.trials().back().values));
  }
  search.handle(TrialReported{1, 4, 0.25});  // is in no record of its own
  for (int trial = 0; trial < 2; ++trial) {
    const TrialCheckpointed one{trial, 1, {10, trial + 1.0, "000" + std::to_string(trial) + "-1"}};
    search.handle(one);
    records.push_back(record_of(one));
  }
  const auto exploit = std::get<ExploitTrial>(search.next_actions().at(0)).exploit;
  for (const auto& record : records) EXPECT_TRUE(take_in(again, record));
  EXPECT_EQ(again.next_actions(), (std::vector<SearchAction>{ExploitTrial{exploit}}))
      << "a driver that died before it was recorded";

  const auto record = record_of(exploit, search.trials()[1]);
  search.handle(exploit);
  EXPECT_TRUE(take_in(again, record));
  EXPECT_EQ(again.trials()[1].from, exploit);
  EXPECT_EQ(again.trials()[1].best, 0.25);
  EXPECT_EQ(again.trials()[1].best_part, 1);
  EXPECT_EQ(again.next_actions(), std::vector<SearchAction>{});
  EXPECT_EQ(again.needed_checkpoints(), search.needed_checkpoints());
  EXPECT_FALSE(take_in(again, record)) << "the part has begun";
  const TrialEnded end{1};
  EXPECT_TRUE(take_in(again, record_of(end, search.trials()[1])));
  EXPECT_EQ(again.trials()[1].best_part, 1);
}

TEST(SweepRecords, OfCheckpointsThatCannotBeAreRefused) {
  for (
      const char* text : {
          R"({"event": "trial_checkpointed", "trial": 0, "part": 1, "at": 10, "value": 1})",
          R"({"event": "trial_checkpointed", "trial": 0, "part": 1, "at": 10, "checkpoint": "../x"})",
          R"({"event": "trial_checkpointed", "trial": 0, "part": 1, "at": 10, "checkpoint": ".new"})",
          R"({"event": "trial_checkpointed", "trial": 2, "part": 1, "at": 10, "checkpoint": "x"})",
          R"({"event": "trial_exploited", "trial": 0, "part": 3, "from": 1, "at": 1, "checkpoint": "x", "parameters": {"x": 1}})",
          R"({"event": "trial_exploited", "trial": 0, "part": 2, "from": 2, "at": 1, "checkpoint": "x", "parameters": {"x": 1}})",
          R"({"event": "trial_exploited", "trial": 0, "part": 2, "from": 1, "at": 1, "checkpoint": "x", "parameters": {}})",
          R"({"event": "trial_exploited", "trial": 0, "part": 2, "from": 1, "at": 1, "checkpoint": "a/b", "parameters": {"x": 1}})",
      }) {
    SearchController search(population());
    search.handle(TrialStarted{0});
    search.handle(TrialStarted{1});
    EXPECT_FALSE(take_in(search, boost::json::parse(text).as_object())) << text;
  }
}

TEST(SweepRecords, ThatCannotBeAreRefused) {
  for (const char* text : {
           R"({"event": "trial_started"})",
           R"({"event": "trial_started", "trial": 1})",
           R"({"event": "trial_started", "trial": -1})",
           R"({"event": "trial_started", "trial": "0"})",
           R"({"event": "trial_started", "trial": 99999999999})",
           R"({"event": "trial_reported", "trial": 0, "at": 1, "value": 1})",
           R"({"event": "trial_ended", "trial": 0, "end": "failed", "code": 1})",
       }) {
    SearchController search = two_trials();
    EXPECT_FALSE(take_in(search, boost::json::parse(text).as_object())) << text;
  }
  for (const char* text : {
           R"({"event": "trial_started", "trial": 0})",
           R"({"event": "trial_reported", "trial": 0, "value": 1})",
           R"({"event": "trial_ended", "trial": 0, "end": "lost", "code": 1})",
           R"({"event": "trial_ended", "trial": 0, "end": "failed", "code": 700})",
       }) {
    SearchController search = two_trials();
    search.handle(TrialStarted{0});
    EXPECT_FALSE(take_in(search, boost::json::parse(text).as_object())) << text;
  }
  SearchController search = two_trials();
  EXPECT_TRUE(take_in(search, {{"event", "something_new"}}));
  // No more trials than the sweep has.
  for (int trial = 0; trial < 2; ++trial)
    EXPECT_TRUE(take_in(search, {{"event", "trial_started"}, {"trial", trial}}));
  EXPECT_FALSE(take_in(search, {{"event", "trial_started"}, {"trial", 2}}));
}

TEST(SweepRecords, ExitCodesSayHowATrialHasEnded) {
  EXPECT_EQ(end_of(0, false), TrialEnd::Finished);
  EXPECT_EQ(end_of(0, true), TrialEnd::Stopped);
  EXPECT_EQ(end_of(75, true), TrialEnd::Stopped);
  EXPECT_EQ(end_of(75, false), std::nullopt) << "somebody stopped it: it can go on";
  EXPECT_EQ(end_of(130, false), std::nullopt);
  EXPECT_EQ(end_of(78, false), TrialEnd::Invalid);
  EXPECT_EQ(end_of(73, false), std::nullopt) << "another train-run has it";
  for (const int code : {1, 2, 7, 69, 74, 137}) EXPECT_EQ(end_of(code, false), TrialEnd::Failed);
  EXPECT_EQ(code_in({{"code", 75}}), 75);
  EXPECT_EQ(code_in({{"code", 1}, {"exit_code", 78}}), 78);
  EXPECT_EQ(code_in({{"code", 1}, {"exit_code", 7}}), 1);
  EXPECT_EQ(code_in({{"code", -1}}), std::nullopt);
  EXPECT_EQ(code_in({{"code", "0"}}), std::nullopt);
}

TEST(SweepRecords, ALaterDriverGoesOnWithWhatIsLeft) {
  const ChildFolder none{}, dead{.begun = true}, ended{.begun = true, .code = 0},
      stopped{.begun = true, .code = 75};
  EXPECT_EQ(resume_step(none, false), ResumeStep::Start);
  EXPECT_EQ(resume_step(dead, false), ResumeStep::Resume);
  EXPECT_EQ(resume_step(ended, false), ResumeStep::End);
  EXPECT_EQ(resume_step(stopped, false), ResumeStep::Resume);
  for (const ChildFolder& folder : {none, dead, ended, stopped})
    EXPECT_EQ(resume_step(folder, true), ResumeStep::End) << "the scheduler had had enough of it";
}

}  // namespace
}  // namespace train
