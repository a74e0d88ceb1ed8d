// Sweeps as the dashboard reads them from their folders, which others may have written.
#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "launcher/dashboard/api.h"
#include "launcher/dashboard/sweeps/sweep_data.h"
#include "tests/unit/launcher_dashboard/dashboard_fixture.h"

namespace train {
namespace {

using testing::HasSubstr;

class SweepsTest : public RunFolderTest {
 protected:
  SweepsTest() {
    write("spec.resolved.yaml",
          "command: [./train]\ntrain_loop_config: {epochs: 3}\nsweep:\n  metric: loss\n"
          "  time_attribute: epoch\n  num_trials: 3\n  scheduler: {asha: {max_time: 4}}\n"
          "  parameters: {lr: {log_uniform: [0.001, 1]}, layers: {int: [1, 4]}, "
          "kind: {choice: [a, b]}, depth: 3}\n");
    add(R"({"event":"generation_taken","host":"vm","pid":7,"build":"1"})");
  }
  void add(const std::string& event) { append("sweep.jsonl", record(event)); }
  void start_trial(int trial, const std::string& parameters = R"({"lr":0.1})") {
    add(R"({"event":"trial_started","trial":)" + std::to_string(trial) + R"(,"parameters":)" +
        parameters + "}");
  }
  void end_trial(int trial, const std::string& end, const std::string& best) {
    add(R"({"event":"trial_ended","trial":)" + std::to_string(trial) + R"(,"end":")" + end +
        R"(","code":0,"cause":"why","at":4,"value":0.75,"best_at":2,"best":)" + best + "}");
  }
  static std::string loss(int number, const std::string& value, int epoch, int rank = 0) {
    return report(rank, number,
                  R"({"loss":)" + value + R"(,"epoch":)" + std::to_string(epoch) + "}");
  }
  boost::json::object get(const std::string& rest, int status = 200) {
    const HttpResponse response =
        api_.answer({.target = parse_target("/api/v1/sweeps" + rest).value()});
    EXPECT_EQ(response.status, status) << response.body;
    return boost::json::parse(response.body).as_object();
  }
  boost::json::object sweep(const std::string& rest = "") { return get("/" + id_ + rest); }
  boost::json::object trial(std::size_t number) {
    return sweep("/trials").at("trials").as_array().at(number).as_object();
  }

  RunCatalog catalog_{{root_}};
  RunTasks tasks_;
  Api api_{catalog_, tasks_, {.version = "1", .actions = true, .address = "127.0.0.1:7080"}};
  const std::string id_ = run_id_of(run_);
};

TEST_F(SweepsTest, ASweepIsListedWithItsTrialsAndItsBest) {
  start_trial(0);
  end_trial(0, "finished", "0.5");
  start_trial(1);
  end_trial(1, "stopped", "0.25");
  start_trial(2, R"({"lr":0.2,"kind":"a"})");
  end_trial(2, "failed", "0.125");
  add(R"({"event":"sweep_ended","code":0,"cause":""})");

  const auto list = get("");
  ASSERT_EQ(list.at("sweeps").as_array().size(), 1U);
  const auto& row = list.at("sweeps").as_array()[0].as_object();

  EXPECT_EQ(row.at("id").as_string(), id_);
  EXPECT_EQ(row.at("state").as_string(), "finished");
  EXPECT_EQ(row.at("metric").as_string(), "loss");
  EXPECT_EQ(row.at("mode").as_string(), "min");
  EXPECT_EQ(row.at("scheduler").as_string(), "asha");
  EXPECT_EQ(row.at("planned").as_int64(), 3);
  EXPECT_EQ(boost::json::serialize(row.at("counts")),
            R"({"running":0,"finished":1,"stopped":1,"failed":1,"interrupted":0,"invalid":0})");
  const auto& best = row.at("best").as_object();
  EXPECT_EQ(best.at("trial").as_int64(), 1) << "a trial that failed does not count";
  EXPECT_EQ(best.at("run").as_string(), run_id_of(run_ + "/trials/0001"));
  EXPECT_TRUE(row.at("error").is_null()) << row.at("error");
  EXPECT_EQ(boost::json::serialize(sweep().at("parameters").as_array()[0]),
            R"({"path":"lr","kind":"log_uniform","low":1E-3,"high":1E0,"values":[]})");
  EXPECT_EQ(boost::json::serialize(sweep().at("parameters").as_array()[2].at("values")),
            R"(["a","b"])");
  EXPECT_EQ(boost::json::serialize(trial(2).at("parameters")), R"({"lr":2E-1,"kind":"a"})");
  EXPECT_EQ(trial(1).at("cause").as_string(), "why");

  add(R"({"event":"more_trials","trials":2})");
  EXPECT_EQ(sweep().at("planned").as_int64(), 5);
  add(R"({"event":"searcher_done"})");
  EXPECT_EQ(sweep().at("planned").as_int64(), 3) << "it wants no more";
}

TEST_F(SweepsTest, RunningTrialsAreAsTheirReportsSay) {
  start_trial(0);
  start_trial(1);
  write("trials/0001/metrics.jsonl",
        loss(1, "0.5", 1) + loss(1, "0.01", 1, 1) + loss(2, "null", 2) + loss(3, "0.75", 3));
  EXPECT_EQ(trial(1).at("state").as_string(), "interrupted");
  EXPECT_EQ(sweep().at("state").as_string(), "interrupted");

  const FileDescriptor held = lock();
  EXPECT_EQ(sweep().at("state").as_string(), "running");
  const auto row = trial(1);

  EXPECT_EQ(row.at("state").as_string(), "running");
  EXPECT_EQ(row.at("time").as_double(), 3);
  EXPECT_EQ(row.at("value").as_double(), 0.75);
  EXPECT_EQ(row.at("best").as_double(), 0.5);
  EXPECT_EQ(row.at("best_time").as_double(), 1);
  EXPECT_TRUE(trial(0).at("best").is_null());
  EXPECT_EQ(sweep().at("best").at("trial").as_int64(), 1);
  append("trials/0001/metrics.jsonl", loss(4, "0.25", 4));
  EXPECT_EQ(trial(1).at("best").as_double(), 0.25);
  EXPECT_EQ(boost::json::serialize(sweep("/curves?trial=1").at("curves").as_array()[0]),
            R"({"trial":1,"reports":4,"non_finite":1,"more":false,"time":[1E0,3E0,4E0],)"
            R"("value":[5E-1,7.5E-1,2.5E-1]})");
}

TEST_F(SweepsTest, ReportsThatARestartRepeatsCountOnce) {
  write("spec.resolved.yaml",
        "command: [./train]\nsweep: {metric: loss, num_trials: 1, "
        "parameters: {lr: {uniform: [0, 1]}}}\n");
  start_trial(0);
  seq_ = 0;
  for (const std::string event :
       {R"({"event":"generation_taken","host":"vm","pid":7,"build":"1"})",
        R"({"event":"attempt_started","attempt":0,"restore":null})",
        R"({"event":"checkpoint_committed","attempt":0,"checkpoint":1,"report":2})",
        R"({"event":"attempt_started","attempt":1,"restore":{"number":1}})"}) {
    std::filesystem::create_directories(path("trials/0000"));
    append("trials/0000/events.jsonl", record(event));
  }
  std::string again = loss(1, "0.25", 3);
  again.replace(again.find("\"attempt\":0"), 11, "\"attempt\":1");
  write("trials/0000/metrics.jsonl",
        loss(1, "1", 1) + loss(2, "0.5", 2) + loss(3, "0.75", 3) + again);

  const auto curve = sweep("/curves?trial=0").at("curves").as_array()[0].as_object();

  EXPECT_EQ(boost::json::serialize(curve.at("time")), "[1E0,2E0,3E0]");
  EXPECT_EQ(boost::json::serialize(curve.at("value")), "[1E0,5E-1,2.5E-1]");
}

TEST_F(SweepsTest, ManyReportsAreFewPointsThatKeepTheMean) {
  start_trial(0);
  std::string text;
  for (int i = 1; i <= 5000; ++i) text += loss(i, i % 2 == 0 ? "1.5" : "0.5", i);
  write("trials/0000/metrics.jsonl", text);

  const auto curve = sweep("/curves?trial=0").at("curves").as_array()[0].as_object();

  const auto& values = curve.at("value").as_array();
  EXPECT_EQ(curve.at("reports").as_int64(), 5000);
  EXPECT_LE(values.size(), TrialCurve::kPointsMax);
  EXPECT_GE(values.size(), TrialCurve::kPointsMax / 4);
  for (std::size_t i = 0; i + 1 < values.size(); ++i) EXPECT_EQ(values[i].as_double(), 1) << i;
  EXPECT_EQ(curve.at("time").as_array()[0].as_double(), 1);
}

TEST_F(SweepsTest, ValuesMayBeAnyJson) {
  start_trial(0, R"({"lr":1e-320,"text":"<b>\u001b[31m","list":[1,{"deep":null}],"none":null,)"
                 R"("flag":true,"big":9223372036854775807,"huge":1e308})");

  const auto parameters = trial(0).at("parameters").as_object();

  EXPECT_EQ(parameters.at("big").as_int64(), 9223372036854775807);
  EXPECT_EQ(boost::json::serialize(parameters.at("list")), R"([1,{"deep":null}])");
  EXPECT_TRUE(parameters.at("none").is_null());
  EXPECT_EQ(parameters.at("text"), "<b>\x1b[31m");
}

TEST_F(SweepsTest, WhatIsTooLargeOrCannotBeIsLeftOut) {
  start_trial(0, R"({"text":")" + std::string(20'000, 'x') + R"("})");
  start_trial(5);
  end_trial(3, "finished", "1");
  end_trial(0, "exploded", "1");
  end_trial(0, "finished", R"("0.5")");

  EXPECT_TRUE(trial(0).at("parameters").is_null());
  EXPECT_EQ(trial(0).at("state").as_string(), "finished");
  EXPECT_TRUE(trial(0).at("best").is_null());
  EXPECT_EQ(sweep("/trials").at("total").as_int64(), 1);
  EXPECT_THAT(std::string(sweep().at("error").as_string()), HasSubstr("cannot end"));
  append("sweep.jsonl", "nonsense\n");
  EXPECT_THAT(std::string(sweep().at("error").as_string()), HasSubstr("behind record 6"));
  write("spec.resolved.yaml", "command: [");
  EXPECT_TRUE(sweep().at("planned").is_null());
  EXPECT_TRUE(sweep().at("metric").is_null());
  EXPECT_TRUE(sweep().at("parameters").as_array().empty());
}

TEST_F(SweepsTest, AJournalThatIsReplacedIsReadAnew) {
  start_trial(0);
  start_trial(1);
  EXPECT_EQ(sweep().at("trials").as_int64(), 2);
  std::filesystem::rename(path("sweep.jsonl"), path("old"));
  seq_ = 0;
  add(R"({"event":"generation_taken","host":"vm","pid":7,"build":"1"})");
  start_trial(0);

  EXPECT_EQ(sweep().at("trials").as_int64(), 1);
  EXPECT_TRUE(sweep().at("error").is_null());
}

TEST_F(SweepsTest, NoLinkIsFollowed) {
  start_trial(0);
  write("elsewhere/metrics.jsonl", loss(1, "0.5", 1));
  std::filesystem::create_directories(path("trials/0000"));
  ASSERT_EQ(
      ::symlink(path("elsewhere/metrics.jsonl").c_str(), path("trials/0000/metrics.jsonl").c_str()),
      0);
  EXPECT_EQ(sweep("/curves?trial=0").at("curves").at(0).at("reports").as_int64(), 0);

  std::filesystem::create_directories(root_ + "/fake");
  ASSERT_EQ(::symlink(path("sweep.jsonl").c_str(), (root_ + "/fake/sweep.jsonl").c_str()), 0);
  EXPECT_EQ(RunCatalog({root_}).sweeps().size(), 1U);
}

TEST_F(SweepsTest, WhatDoesNotExistIsNotFound) {
  start_trial(0);

  get("/none~0", 404);
  get("/" + id_ + "/curves", 400);
  get("/" + id_ + "/curves?trial=1", 404);
  get("/" + id_ + "/curves?trial=-1", 404);
  get("/" + id_ + "/curves?trial=x", 404);
  get("/" + id_ + "/trials?limit=10001", 400);
  std::string many = "/" + id_ + "/curves?trial=0";
  for (int i = 0; i < 100; ++i) many += "&trial=0";
  get(many, 400);
}

TEST_F(SweepsTest, TrialsAreRunsOfTheirSweep) {
  for (const std::string name : {"trials/0000", "trials/0007", "trials/notes", "trials/12"})
    write(name + "/events.jsonl", "");
  start_trial(0);
  std::set<std::string> paths;
  for (const auto& run : catalog_.runs()) {
    EXPECT_TRUE(run->is_trial());
    paths.insert(run->with([](RunData& data) { return data.location(); }));
  }
  EXPECT_EQ(paths, (std::set{path("trials/0000"), path("trials/0007")}));

  const auto runs = [&](const std::string& query) {
    const HttpResponse response =
        api_.answer({.target = parse_target("/api/v1/runs" + query).value()});
    return boost::json::parse(response.body).as_object();
  };
  EXPECT_EQ(runs("").at("total").as_int64(), 2);
  EXPECT_EQ(runs("?trials=false").at("total").as_int64(), 0);
  EXPECT_TRUE(runs("?trials=maybe").contains("error"));
  EXPECT_EQ(
      boost::json::serialize(runs("?sort=name&order=asc").at("runs").as_array()[1].at("sweep")),
      R"({"id":")" + id_ + R"(","name":"job","trial":7})");
}

TEST_F(SweepsTest, TenThousandTrialsAreAnsweredInPieces) {
  std::string text;
  for (int i = 0; i < 10'500; ++i)
    text += record(R"({"event":"trial_started","trial":)" + std::to_string(i) +
                   R"(,"parameters":{"lr":)" + std::to_string(i) + "}}");
  append("sweep.jsonl", text);

  EXPECT_EQ(sweep("/trials").at("trials").as_array().size(), 10'000U);
  const auto rest = sweep("/trials?after=10000");
  EXPECT_EQ(rest.at("trials").as_array().size(), 500U);
  EXPECT_EQ(rest.at("trials").as_array()[0].at("trial").as_int64(), 10'000);
  EXPECT_EQ(rest.at("total").as_int64(), 10'500);
}

}  // namespace
}  // namespace train
