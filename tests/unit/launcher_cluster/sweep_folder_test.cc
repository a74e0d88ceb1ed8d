#include "launcher/cluster/sweep/sweep_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "launcher/cluster/children/child_folder.h"
#include "launcher/cluster/sweep/trial_reports.h"
#include "lib/base/text_file.h"
#include "lib/storage/posix_file_system.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

class SweepFolders : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  TempFolder temp;
  const SweepFolder folder{temp.path() + "/vit"};
};

// A train-run makes the journal before the specs, and can be killed in between.
TEST_F(SweepFolders, ATrialHasBegunOnceItHasItsJournalAndItsSpec) {
  PosixFileSystem files;
  const RunFolder run(folder.trial(0));
  const auto step = [&] { return resume_step(look_into_child(files, run), false); };
  EXPECT_EQ(step(), ResumeStep::Start);
  for (const std::string& path : {run.lock(), run.path() + "/.owner", run.journal()}) {
    write(path, "");
    EXPECT_EQ(step(), ResumeStep::Start) << path;
  }
  write(run.resolved_spec(), "");
  EXPECT_EQ(step(), ResumeStep::Resume);
  write(run.exit_json(), R"({"code": 7)");
  EXPECT_EQ(step(), ResumeStep::Resume) << "a torn file says nothing";
  write(run.exit_json(), R"({"code": 7})");
  EXPECT_EQ(step(), ResumeStep::End);
  EXPECT_EQ(look_into_child(files, run).code, 7);
}

TEST_F(SweepFolders, OnlyCheckpointsThatWereKeptAreRemoved) {
  for (const char* name : {"0001-000001", "0001.12-000003", "10000-1000000", "mine", "0001-1",
                           "01-000001", "0001.-000001", "0001-000001x", ".new"})
    write(folder.donor(name) + "/file", "");
  write(folder.donor("0002-000001"), "a file");
  write(temp.path() + "/elsewhere/file", "");
  std::filesystem::create_directory_symlink(temp.path() + "/elsewhere",
                                            folder.donor("0003-000001"));
  remove_checkpoints(folder, {"0001.12-000003"});
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.donors()))
    left.insert(entry.path().filename());
  EXPECT_EQ(left,
            (std::set<std::string>{"0001.12-000003", "mine", "0001-1", "01-000001", "0001.-000001",
                                   "0001-000001x", ".new", "0002-000001", "0003-000001"}));
  EXPECT_TRUE(std::filesystem::exists(temp.path() + "/elsewhere/file"));
}

TEST_F(SweepFolders, AreFoundByPathAndByName) {
  EXPECT_EQ(find_sweep(folder.path(), ""), std::nullopt);
  write(folder.journal(), "");
  EXPECT_EQ(find_sweep(folder.path() + "/", ""), folder.path());
  EXPECT_EQ(find_sweep("vit", temp.path()), folder.path());
  EXPECT_EQ(find_sweep("other", temp.path()), std::nullopt);
  EXPECT_EQ(find_sweep("", temp.path()), std::nullopt);
  EXPECT_EQ(find_trial("vit/3", temp.path()), folder.path() + "/trials/0003");
  EXPECT_EQ(find_trial(folder.path() + "/0012", ""), folder.path() + "/trials/0012");
  for (const char* none :
       {"vit", "vit/", "vit/x", "vit/-1", "vit/3x", "other/3", "vit/99999999999"})
    EXPECT_EQ(find_trial(none, temp.path()), std::nullopt) << none;
  EXPECT_TRUE(holds_trials(folder.trials()));
  EXPECT_FALSE(holds_trials(temp.path()));
}

TEST_F(SweepFolders, HaveATableOfAllTrials) {
  SearchController search(
      {.metric = "loss",
       .search = SearchKind::Grid,
       .parameters = {
           {.path = "a,b", .kind = ParameterKind::Choice, .values = {"x \"y\"", 3, nullptr}}}});
  for (int trial = 0; trial < 3; ++trial) search.handle(TrialStarted{trial});
  search.handle(TrialReported{0, 1, 0.1});
  search.handle(TrialEnded{0});
  search.handle(TrialEnded{1, TrialEnd::Failed, 7, "why"});
  std::filesystem::create_directories(folder.path());
  ASSERT_TRUE(write_trials_csv(folder, search));
  EXPECT_EQ(read_text(folder.trials_csv()),
            "trial,state,time,value,best,best_time,exit_code,\"a,b\"\n"
            "0,finished,1,0.1,0.1,1,0,\"x \"\"y\"\"\"\n"
            "1,failed,,,,,7,3\n"
            "2,running,,,,,,null\n");
}

TEST_F(SweepFolders, LinkTheBestTrial) {
  std::filesystem::create_directories(folder.path());
  ASSERT_TRUE(link_best(folder, 3, 1));
  ASSERT_TRUE(link_best(folder, 12, 1));
  EXPECT_EQ(std::filesystem::read_symlink(folder.best()), "trials/0012");
  ASSERT_TRUE(link_best(folder, 12, 2));
  EXPECT_EQ(std::filesystem::read_symlink(folder.best()), "trials/0012.2");
}

TEST(TrialReports, ThatAreRepeatedAfterARestartHaveTheNumbersThatTheyHad) {
  const auto began = [](int attempt, boost::json::value restore) -> boost::json::object {
    return {{"event", "attempt_started"}, {"attempt", attempt}, {"restore", std::move(restore)}};
  };
  const auto committed = [](int attempt, int checkpoint, int report) -> boost::json::object {
    return {{"event", "checkpoint_committed"},
            {"attempt", attempt},
            {"checkpoint", checkpoint},
            {"report", report}};
  };
  using Before = std::map<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(
      reports_before_attempts({began(0, nullptr), committed(0, 1, 5), committed(0, 2, 9),
                               began(1, boost::json::object{{"number", 1}}), committed(1, 3, 4),
                               began(2, nullptr), began(3, boost::json::object{{"number", 3}}),
                               began(4, boost::json::object{{"number", 77}})}),
      (Before{{0, 0}, {1, 5}, {2, 0}, {3, 9}, {4, 0}}));
  EXPECT_EQ(
      reports_before_attempts(
          {{{"event", 3}}, {{"attempt", 0}}, {{"event", "attempt_started"}, {"attempt", -1}}}),
      Before{});
}

TEST_F(SweepFolders, ReportsAreReadAsFarAsTheyAreOnDisk) {
  const RunFolder run(folder.trial(0));
  TrialReports reports(run, "loss", "epoch"), counted(run, "loss", "");
  EXPECT_TRUE(reports.read(100)->empty()) << "there is no file";
  const std::string first =
      R"({"rank":0,"attempt":0,"report_seq":1,"time":"2026-11-21T09:38:00.123456Z","checkpoint":false,"metrics":{"epoch":1,"loss":0.5}})"
      "\n";
  const std::string other =
      R"({"rank":1,"attempt":0,"report_seq":1,"time":"2026-11-21T09:38:00.123456Z","checkpoint":false,"metrics":{"epoch":1,"loss":9}})"
      "\n";
  const std::string without =
      R"({"rank":0,"attempt":0,"report_seq":2,"time":"2026-11-21T09:38:00.123456Z","checkpoint":false,"metrics":{"epoch":2,"word":"x"}})"
      "\n";
  const std::string third =
      R"({"rank":0,"attempt":0,"report_seq":3,"time":"2026-11-21T09:38:00.123456Z","checkpoint":false,"metrics":{"loss":0.25}})"
      "\n";
  const std::string all = first + other + "no report\n" + without + third;
  write(run.metrics(), all);
  using Metrics = std::vector<MetricAtTime>;
  EXPECT_EQ(*reports.read(first.size() - 5), Metrics{});
  EXPECT_EQ(*reports.read(first.size()), (Metrics{{1, 0.5, 0, 1}}));
  EXPECT_EQ(*reports.read(all.size() + 100), Metrics{}) << "the others lack the loss or the epoch";
  EXPECT_EQ(*counted.read(all.size()), (Metrics{{1, 0.5, 0, 1}, {3, 0.25, 0, 3}}));
}

}  // namespace
}  // namespace train
