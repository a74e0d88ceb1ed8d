// What an MLflow server is sent, and what happens while it is away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <limits>

#include "launcher/cluster/mlflow/mlflow_logger.h"
#include "lib/base/secrets.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/mlflow_server.h"

namespace train {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ReportRecord report(std::uint64_t seq, Metrics metrics, std::int32_t rank = 0) {
  return {.rank = rank,
          .report_seq = seq,
          .wall_us = 1'000'000 + static_cast<std::int64_t>(seq) * 1000,
          .metrics = std::move(metrics)};
}

TEST(MlflowApi, MapsNamesToThoseThatAServerTakes) {
  EXPECT_EQ(mlflow_name("val/acc top-1: a.b_c"), "val/acc top-1: a.b_c");
  EXPECT_EQ(mlflow_name("loss[0] \xc3\xa4%"), "loss_0_ ___");
  EXPECT_EQ(mlflow_name("/a//../b/."), "_/a/_/_/b/_");
  EXPECT_EQ(mlflow_name(""), "_");
  EXPECT_EQ(mlflow_name(std::string(1000, 'x')).size(), kMlflowNameBytesMax);
}

TEST(MlflowApi, SendsNumbersOfAReportAtItsStep) {
  const auto points = mlflow_points(
      report(2, {{"loss", 0.25}, {"n", std::int64_t{3}}, {"ok", true}, {"note", std::string("x")}}),
      7);
  EXPECT_THAT(points, ElementsAre(MlflowPoint{"loss", 0.25, 1002, 7}, MlflowPoint{"n", 3, 1002, 7},
                                  MlflowPoint{"ok", 1, 1002, 7}));
}

TEST(MlflowApi, MakesBatchesInTheFormOfProtocolBuffers) {
  const std::vector<MlflowPoint> points{{"a", 0.5, 1002, 1},
                                        {"b", std::nan(""), 1002, 1},
                                        {"c", std::numeric_limits<double>::infinity(), 1002, 2}};
  EXPECT_EQ(mlflow_batch("r1", points, {{"lr", "0.1"}}, {{"t", "v"}}),
            R"({"run_id":"r1","metrics":[{"key":"a","value":5E-1,"timestamp":1002,"step":1},)"
            R"({"key":"b","value":"NaN","timestamp":1002,"step":1},)"
            R"({"key":"c","value":"NaN","timestamp":1002,"step":2}],)"
            R"("params":[{"key":"lr","value":"0.1"}],"tags":[{"key":"t","value":"v"}]})");
  EXPECT_EQ(
      mlflow_create_run("1", "vit", 5, {{"k", "v"}}),
      R"({"experiment_id":"1","run_name":"vit","start_time":5,"tags":[{"key":"k","value":"v"}]})");
  EXPECT_EQ(mlflow_find_run("1", "trainrun.run_id", "4f"),
            R"({"experiment_ids":["1"],"filter":"tags.`trainrun.run_id` = '4f'","max_results":1})");
  EXPECT_EQ(mlflow_update("r1", "FAILED", 9), R"({"run_id":"r1","status":"FAILED","end_time":9})");
}

TEST(MlflowApi, MakesParamsOfTheSpecWithoutSecrets) {
  JobSpec spec;
  spec.train_loop_config =
      boost::json::parse(
          R"({"lr":0.1,"opt":{"name":"adam","betas":[0.9,0.99]},"api_token":"abcdefgh"})")
          .as_object();
  spec.scaling_config.num_workers = {2, 4};
  EXPECT_EQ(mlflow_params(spec), (MlflowTexts{{"api_token", "<redacted:api_token>"},
                                              {"lr", "0.1"},
                                              {"opt.betas", "[9E-1,9.9E-1]"},
                                              {"opt.name", "adam"},
                                              {"trainrun.num_workers", "2-4"},
                                              {"trainrun.use_gpu", "false"}}));
}

TEST(MlflowApi, KeepsParamsThatAreThereAndTagsThoseThatChanged) {
  MlflowTexts wanted{{"lr", "0.2"}, {"same", "1"}, {"new", "2"}}, tags;
  keep_params(wanted, {{"lr", "0.1"}, {"same", "1"}, {"old", "3"}}, tags);
  EXPECT_EQ(wanted, (MlflowTexts{{"new", "2"}}));
  EXPECT_EQ(tags, (MlflowTexts{{"trainrun.param.lr", "0.2"}}));
}

TEST(MlflowApi, PutsFilesWhereTheServerKeepsThem) {
  EXPECT_EQ(mlflow_artifact_path("mlflow-artifacts:/1/ab/artifacts", "spec.yaml"),
            "/api/2.0/mlflow-artifacts/artifacts/1/ab/artifacts/spec.yaml");
  EXPECT_EQ(mlflow_artifact_path("mlflow-artifacts://h:5000/1/ab", "x"),
            "/api/2.0/mlflow-artifacts/artifacts/1/ab/x");
  EXPECT_EQ(mlflow_artifact_path("s3://bucket/1/ab", "x"), "");
  EXPECT_EQ(mlflow_artifact_path("mlflow-artifacts://h:5000", "x"), "");
}

TEST(MlflowApi, UnderstandsAnswers) {
  EXPECT_EQ(mlflow_answer({0, "", "no route"}).error(), (Error{Errc::Unavailable, "no route"}));
  EXPECT_EQ(mlflow_answer({503, "<html>", ""}).error(), (Error{Errc::Unavailable, "status 503"}));
  EXPECT_EQ(mlflow_answer({400, R"({"error_code":"BAD","message":"why"})", ""}).error(),
            (Error{Errc::InvalidArgument, "BAD: why"}));
  EXPECT_EQ(mlflow_answer({404, "{}", ""}).error().code, Errc::NotFound);
  EXPECT_TRUE(mlflow_answer({200, "", ""}));
  EXPECT_TRUE(mlflow_answer({200, "[1]", ""}));
  EXPECT_EQ(mlflow_answer({503, "[1]", ""}).error(), (Error{Errc::Unavailable, "status 503"}));
}

TEST(MlflowOptions, ComeFromMlflowsVariables) {
  const auto options = mlflow_options({{"MLFLOW_TRACKING_URI", "https://mlflow.example.com/ml/"},
                                       {"MLFLOW_EXPERIMENT_NAME", "vision"},
                                       {"MLFLOW_RUN_ID", "ab"},
                                       {"MLFLOW_TRACKING_TOKEN", "t0ken"},
                                       {"MLFLOW_TRACKING_INSECURE_TLS", "true"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->uri, "https://mlflow.example.com/ml");
  EXPECT_EQ(options->experiment_name, "vision");
  EXPECT_EQ(options->run_id, "ab");
  EXPECT_THAT(options->headers, ElementsAre("Authorization: Bearer t0ken"));
  EXPECT_FALSE(options->verify);

  EXPECT_EQ(mlflow_options({{"MLFLOW_TRACKING_URI", "http://m"},
                            {"MLFLOW_TRACKING_USERNAME", "ada"},
                            {"MLFLOW_TRACKING_PASSWORD", "pw"}})
                ->user,
            "ada:pw");
  EXPECT_EQ(mlflow_options({}).error().code, Errc::InvalidSpec);
  EXPECT_EQ(mlflow_options({{"MLFLOW_TRACKING_URI", "file:///mlruns"}}).error().code,
            Errc::InvalidSpec);
}

class MlflowLoggerTest : public testing::Test {
 protected:
  std::unique_ptr<MlflowLogger> logger(MlflowOptions options = {.uri = "http://mlflow:5000"}) {
    return std::make_unique<MlflowLogger>(
        std::move(options), MlflowRun{"4f2a", "vit", {{"lr", "0.1"}}, {{"trainrun.host", "h"}}},
        [this](const std::string& text) {
          const std::lock_guard lock(mutex_);
          said_.push_back(text);
        },
        [this](const WebRequest& request) { return server_.ask(request); });
  }
  static void add(MlflowLogger& logger, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t seq = from; seq <= to; ++seq) {
      const std::vector<ReportRecord> reports{report(seq, {{"loss", 1.0 / double(seq)}}),
                                              report(seq, {{"loss", 9.0}}, 1)};
      logger.add(reports);
    }
  }
  static void end(MlflowLogger& logger, std::string_view status = "FINISHED",
                  Duration limit = seconds(60)) {
    logger.end_by(std::chrono::steady_clock::now() + limit,
                  MlflowEnd{status, "the end", {{"spec.yaml", "a: b"}}});
    logger.wait();
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  fakes::MlflowServer::Run only_run() {
    const auto runs = server_.runs();
    EXPECT_EQ(runs.size(), 1u);
    return runs.empty() ? fakes::MlflowServer::Run{} : runs.begin()->second;
  }

  fakes::MlflowServer server_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(MlflowLoggerTest, ARunIsThereWithItsParamsNumbersFilesAndEnd) {
  const auto mlflow = logger({.uri = "http://mlflow:5000", .experiment_name = "vision"});
  mlflow->begin();
  add(*mlflow, 1, 2);
  end(*mlflow, "FAILED");

  const auto run = only_run();
  EXPECT_EQ(run.name, "vit");
  EXPECT_EQ(run.experiment, "1");
  EXPECT_EQ(run.status, "FAILED");
  EXPECT_EQ(run.params, (MlflowTexts{{"lr", "0.1"}}));
  EXPECT_EQ(run.tags, (MlflowTexts{{"mlflow.note.content", "the end"},
                                   {"trainrun.host", "h"},
                                   {"trainrun.run_id", "4f2a"}}));
  EXPECT_EQ(run.metrics.at("loss"),
            (std::set<fakes::MlflowServer::Point>{{1, 1001, "1E0"}, {2, 1002, "5E-1"}}));
  EXPECT_EQ(server_.files().begin()->first, "/1/run0/spec.yaml");
  EXPECT_EQ(server_.files().begin()->second, "a: b");
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(MlflowLoggerTest, AServerThatIsAwayLosesNothingOfWhatTheQueueHolds) {
  server_.away = true;
  const auto mlflow = logger();
  mlflow->begin();
  add(*mlflow, 1, 3000);
  ASSERT_TRUE(fakes::eventually([&] { return !said().empty(); }));
  server_.away = false;
  end(*mlflow);

  EXPECT_THAT(only_run().metrics.at("loss"), SizeIs(3000));
  ASSERT_THAT(said(), SizeIs(1));
  EXPECT_THAT(said().front(),
              HasSubstr("MLflow: the server at http://mlflow:5000 does not answer: connection "
                        "refused; training goes on"));
}

TEST_F(MlflowLoggerTest, MoreThanTheQueueHoldsIsDroppedFromItsFrontAndCounted) {
  server_.away = true;
  const auto mlflow = logger();
  mlflow->begin();
  add(*mlflow, 1, kMlflowPointsMax + 5);
  server_.away = false;
  end(*mlflow);

  const auto points = only_run().metrics.at("loss");
  EXPECT_EQ(points.size(), kMlflowPointsMax);
  EXPECT_EQ(std::get<0>(*points.begin()), 6);
  EXPECT_THAT(said(), Contains("MLflow: 5 values were not logged: the server was away; they are in "
                               "metrics.jsonl"));
}

TEST_F(MlflowLoggerTest, LostAnswersDoNothingTwice) {
  const auto mlflow = logger();
  server_.loses_answers = true;
  mlflow->begin();
  add(*mlflow, 1, 10);
  ASSERT_TRUE(fakes::eventually([&] { return !said().empty(); }));
  server_.loses_answers = false;
  ASSERT_TRUE(fakes::eventually([&] { return !server_.runs().empty(); }));
  server_.loses_answers = true;
  ASSERT_TRUE(fakes::eventually([&] {
    const auto runs = server_.runs();
    return runs.begin()->second.metrics.contains("loss") || server_.asked().size() > 12;
  }));
  server_.loses_answers = false;
  end(*mlflow);

  EXPECT_THAT(only_run().metrics.at("loss"), SizeIs(10));
}

TEST_F(MlflowLoggerTest, AResumedRunGoesOnInItAndSendsAgainWhatMayBeMissing) {
  {
    const auto first = logger();
    first->begin();
    add(*first, 1, 3);
    ASSERT_TRUE(fakes::eventually([&] {
      const auto runs = server_.runs();
      return !runs.empty() && runs.begin()->second.metrics.contains("loss");
    }));
  }  // killed
  const auto second = logger();
  for (std::uint64_t seq = 1; seq <= 5; ++seq)  // two more than the first had sent
    second->earlier(report(seq, {{"loss", 1.0 / double(seq)}}));
  second->begin();
  add(*second, 6, 7);
  end(*second);

  const auto run = only_run();
  EXPECT_EQ(run.status, "FINISHED");
  std::vector<std::int64_t> steps;
  for (const auto& point : run.metrics.at("loss")) steps.push_back(std::get<0>(point));
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(MlflowLoggerTest, AServerThatRefusesTheRunIsSaidOnceAndKeepsNobody) {
  const auto mlflow = logger({.uri = "http://mlflow:5000", .run_id = "no such run"});
  mlflow->begin();
  add(*mlflow, 1, 3);
  end(*mlflow);

  EXPECT_THAT(said(), ElementsAre("MLflow: the server at http://mlflow:5000 refuses the run: "
                                  "RESOURCE_DOES_NOT_EXIST: no run",
                                  "MLflow: the server has refused 3 values"));
}

TEST_F(MlflowLoggerTest, AnAbsentServerDelaysTheEndNoLongerThanItMay) {
  server_.away = true;
  const auto mlflow = logger();
  mlflow->begin();
  add(*mlflow, 1, 3);
  end(*mlflow, "FINISHED", milliseconds(50));
  EXPECT_THAT(said(), Contains(HasSubstr("3 values were not logged")));
}

}  // namespace
}  // namespace train
