// What is told of a run, and when: by a command that writes down each notification.
#include "launcher/cluster/notify/run_notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <boost/json.hpp>
#include <memory>
#include <optional>
#include <sstream>

#include "launcher/cluster/run/run_record.h"
#include "lib/base/host.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

namespace json = boost::json;
using testing::ElementsAre;

class RunNotifierTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = temp_.path();
    spec_.command = {"./train"};
    auto record = RunRecord::open(spec_, {});
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
    summary_.emplace(
        spec_, *record_, clock_, [](const std::function<void()>& work) { work(); }, log_);
    summary_->placed(
        {.world_size = 4,
         .nodes = {{NodeId{0}, NodeRank{0}, Rank{0}, 2}, {NodeId{1}, NodeRank{1}, Rank{2}, 2}},
         .reason = "",
         .never = false});
  }
  void make(const std::vector<std::string>& events, bool continues = false) {
    notifier_.emplace(
        std::vector<NotifyTarget>{
            {.on = events, .command = {"sh", "-c", "cat >>told; echo >>told"}}},
        EventNotifier::Options{.folder = temp_.path(),
                               .environment = {{"PATH", "/usr/bin:/bin"}},
                               .say = [](const std::string& text) { ADD_FAILURE() << text; }},
        RunNotifier::Run{.identity = {.run_id = "4f2a",
                                      .name = "vit",
                                      .generation = {},
                                      .location = "/nfs/runs/vit",
                                      .storage_marker = ""},
                         .continues = continues},
        *summary_, clock_, [] {
          return Metrics{{"loss", 0.25}};
        });
  }
  void running(std::uint32_t attempt, RunTrigger trigger = RunTrigger::AllStarted) {
    notifier_->state_changed({.from = RunState::Starting,
                              .to = RunState::Running,
                              .trigger = trigger,
                              .attempt = Attempt{attempt},
                              .reason = "",
                              .stop_condition = ""});
  }
  /// Return all that was told.
  std::vector<json::object> told() {
    notifier_->finish();
    std::vector<json::object> all;
    std::istringstream lines(text_of(temp_.path() + "/told"));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) all.push_back(json::parse(line).as_object());
    return all;
  }
  std::vector<std::string> events() {
    std::vector<std::string> names;
    for (const json::object& one : told()) names.emplace_back(one.at("event").as_string());
    return names;
  }

  TempFolder temp_;
  JobSpec spec_;
  SystemClock clock_;
  std::unique_ptr<RunRecord> record_;
  const RunLog log_{Log(), nullptr};
  std::optional<RunSummaryBuilder> summary_;
  std::optional<RunNotifier> notifier_;
};

const std::vector<std::string> kAll{"started",    "restarted", "hung",
                                    "checkpoint", "failed",    "finished"};

TEST_F(RunNotifierTest, ARunStartsOnceAndRestartsWithTheCause) {
  make(kAll);
  const auto before = parse_utc(format_utc(clock_.wall()));  // in its precision
  notifier_->state_changed({.from = RunState::Preparing,
                            .to = RunState::Starting,
                            .trigger = RunTrigger::AllPrepared,
                            .attempt = Attempt{0},
                            .reason = "",
                            .stop_condition = ""});
  running(0);
  AttemptEnded ended;
  ended.attempt = Attempt{0};
  ended.failed = true;
  ended.cause = "n1 was lost";
  ended.root_node = "n1";
  summary_->attempt_ended(ended);
  running(1);

  const auto all = told();

  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("event"), "started");
  EXPECT_TRUE(all[0].at("cause").is_null());
  EXPECT_EQ(all[0].at("attempt"), 0);
  EXPECT_EQ(all[0].at("run"), "vit");
  EXPECT_EQ(all[0].at("run_id"), "4f2a");
  EXPECT_EQ(all[0].at("path"), "/nfs/runs/vit");
  EXPECT_EQ(all[0].at("host").as_string(), host_name());
  EXPECT_LE(before, parse_utc(std::string(all[0].at("time").as_string())));
  EXPECT_GE(clock_.wall(), parse_utc(std::string(all[0].at("time").as_string())));
  EXPECT_EQ(all[0].at("world_size"), 4);
  EXPECT_EQ(all[0].at("nnodes"), 2);
  EXPECT_EQ(all[0].at("metrics"), (json::object{{"loss", 0.25}}));
  EXPECT_EQ(all[1].at("event"), "restarted");
  EXPECT_EQ(all[1].at("attempt"), 1);
  EXPECT_EQ(all[1].at("cause"), "n1 was lost");
}

TEST_F(RunNotifierTest, ALauncherThatGoesOnWithARunTellsOfNoBeginning) {
  make(kAll, /*continues=*/true);
  running(3, RunTrigger::GroupFound);  // its workers live: nothing has happened
  running(4);

  EXPECT_THAT(events(), ElementsAre("restarted"));
}

TEST_F(RunNotifierTest, HangsSayWhereTheyAre) {
  make(kAll);
  notifier_->hang_found(
      {.attempt = Attempt{2}, .rank = Rank{3}, .node = "n1", .text = "rank 3 on n1 hangs"});

  const auto all = told();

  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("event"), "hung");
  EXPECT_EQ(all[0].at("attempt"), 2);
  EXPECT_EQ(all[0].at("rank"), 3);
  EXPECT_EQ(all[0].at("node"), "n1");
  EXPECT_EQ(all[0].at("cause"), "rank 3 on n1 hangs");
}

TEST_F(RunNotifierTest, OnlyWhatIsAskedForIsTold) {
  make({"checkpoint"});
  running(0);
  notifier_->hang_found({.attempt = {}, .rank = Rank{0}, .node = "n0", .text = ""});
  CheckpointManager::Outcome outcome;
  outcome.committed.info = {7, "/runs/vit/checkpoints/checkpoint_000007", 0};
  summary_->checkpoint_committed(outcome, Attempt{0}, 4);
  notifier_->checkpoint_committed(Attempt{0});

  const auto all = told();

  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("event"), "checkpoint");
  EXPECT_EQ(all[0].at("checkpoint").at("path"), "/runs/vit/checkpoints/checkpoint_000007");
}

TEST_F(RunNotifierTest, TheEndIsToldUnlessTheRunGoesOnUnderAnother) {
  make(kAll);
  RunSummary end;
  end.outcome = Outcome::Replaced;
  notifier_->end(end);
  end.outcome = Outcome::Succeeded;
  notifier_->end(end);

  const auto all = told();

  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("event"), "finished");
  EXPECT_EQ(all[0].at("run"), "vit");
  EXPECT_EQ(all[0].at("path"), "/nfs/runs/vit");
}

}  // namespace
}  // namespace train
