// run_config.callbacks: [mlflow], with a server of the test's own, and (RealMlflow, `make
// test-mlflow`) with MLflow's.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>

#include "tests/e2e/cluster.h"
#include "tests/fakes/http_server.h"
#include "tests/fakes/mlflow_server.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

/// Write a job that reports `loss` of `epochs` epochs, with a checkpoint each. `more`: of
/// train_loop_config.
std::string mlflow_job(const Cluster& cluster, int epochs, const std::string& more = "") {
  return cluster.job("job",
                     "command: [" + program("sdk_worker") +
                         "]\ntrain_loop_config: {mode: epochs, epochs: " + std::to_string(epochs) +
                         more +
                         "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
                     "  callbacks: [csv, mlflow]\n");
}

class FakeServer {
 public:
  explicit FakeServer(fakes::MlflowServer& state)
      : server_([&state](const fakes::ReceivedRequest& request) {
          const WebAnswer answer = state.ask(
              {.method = request.method.c_str(), .url = request.target, .body = request.body});
          return fakes::Reply{static_cast<int>(answer.status), answer.body, answer.status == 0};
        }) {}
  std::string url() const { return server_.url(); }

 private:
  fakes::HttpServer server_;
};

TEST(Mlflow, ARunIsLoggedWithItsParamsMetricsFilesAndEnd) {
  Cluster cluster;
  fakes::MlflowServer mlflow;
  const FakeServer server(mlflow);
  Process& run = cluster.train_run(
      {mlflow_job(cluster, 5)},
      {.env = {{"MLFLOW_TRACKING_URI", server.url()}, {"MLFLOW_EXPERIMENT_NAME", "vision"}}});
  ASSERT_EQ(run.wait(), 0) << run.err();

  const auto runs = mlflow.runs();
  ASSERT_EQ(runs.size(), 1u);
  const auto& logged = runs.begin()->second;
  EXPECT_EQ(logged.name, "job");
  EXPECT_EQ(logged.status, "FINISHED");
  EXPECT_EQ(logged.params.at("epochs"), "5");
  EXPECT_EQ(logged.params.at("trainrun.num_workers"), "2");
  EXPECT_EQ(logged.metrics.at("loss").size(), 5u);
  EXPECT_EQ(std::get<0>(*logged.metrics.at("loss").rbegin()), 5);
  EXPECT_EQ(logged.tags.at("trainrun.path"), cluster.run_dir("job"));
  EXPECT_TRUE(contains(logged.tags.at("mlflow.note.content"), cluster.run_dir("job")));
  const auto files = mlflow.files();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files.begin()->first.ends_with("/run.json"));
  EXPECT_TRUE(contains(files.rbegin()->second, "epochs: 5"));
}

TEST(Mlflow, AServerThatIsAwayDelaysNothingButTheEndALittle) {
  Cluster cluster;
  Process& run = cluster.train_run({mlflow_job(cluster, 3)},
                                   {.env = {{"MLFLOW_TRACKING_URI", "http://127.0.0.1:9"}}});
  ASSERT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "MLflow: the server at http://127.0.0.1:9 does not answer"))
      << run.out();
  EXPECT_TRUE(contains(run.out(), " values were not logged")) << run.out();
}

TEST(Mlflow, WithoutAServersAddressNothingStarts) {
  Cluster cluster;
  Process& run = cluster.train_run({mlflow_job(cluster, 3)});
  ASSERT_EQ(run.wait(), 78);
  EXPECT_TRUE(contains(run.err(),
                       "run_config.callbacks has mlflow, and MLFLOW_TRACKING_URI is not "
                       "set"))
      << run.err();
}

/// MLflow's own server, in the cluster's folder.
class RealMlflow : public testing::Test {
 protected:
  void SetUp() override {
    program_ = std::string(TRAIN_DEPS_DIR) + "/mlflow-venv-1/bin/mlflow";
    if (!exists(program_)) GTEST_SKIP() << "no MLflow server: run packaging/deps/install.sh mlflow";
    fakes::HttpServer reserve([](const fakes::ReceivedRequest&) { return fakes::Reply{}; });
    port_ = std::to_string(reserve.port());
  }
  std::string url() const { return "http://127.0.0.1:" + port_; }

  Process& start_server() {
    Process& server =
        cluster_.start({program_, "server", "--host", "127.0.0.1", "--port", port_, "--workers",
                        "1", "--backend-store-uri", "sqlite:///" + cluster_.path("mlflow.db"),
                        "--artifacts-destination", cluster_.path("artifacts")},
                       {.env = {{"MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false"}}});
    EXPECT_TRUE(wait_until([&] { return !get("/health").empty(); })) << server.err();
    return server;
  }
  static void kill_server(Process& server) {
    server.signal(SIGTERM);  // uvicorn's parent ends its worker
    EXPECT_TRUE(server.wait().has_value());
  }
  /// Return the body of an answer, "" if there is none.
  std::string get(const std::string& target, const std::string& body = "") {
    std::vector<std::string> argv{"curl", "-s", "-f", url() + target};
    if (!body.empty())
      argv.insert(argv.end(), {"-H", "Content-Type: application/json", "-d", body});
    Process& curl = cluster_.start(argv);
    return curl.wait() == 0 ? curl.out() : "";
  }
  Process& start_run(const std::vector<std::string>& arguments) {
    return cluster_.train_run(
        arguments, {.env = {{"MLFLOW_TRACKING_URI", url()}, {"MLFLOW_EXPERIMENT_NAME", "vision"}}});
  }
  /// Return all runs of the experiment.
  json::array runs() {
    const std::string found =
        get("/api/2.0/mlflow/runs/search", R"({"experiment_ids":["1"],"max_results":100})");
    const auto answer = json::parse(found.empty() ? "{}" : found).as_object();
    return answer.contains("runs") ? answer.at("runs").as_array() : json::array{};
  }
  /// Return the steps of all points of a metric.
  std::vector<std::int64_t> steps(const std::string& run, const std::string& metric) {
    const std::string found =
        get("/api/2.0/mlflow/metrics/get-history?run_id=" + run + "&metric_key=" + metric);
    const json::value history = json::parse(found);
    std::vector<std::int64_t> steps;
    for (const json::value& point : history.at("metrics").as_array())
      steps.push_back(point.at("step").is_int64() ? point.at("step").as_int64() : 0);
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  static std::vector<std::int64_t> up_to(std::int64_t last) {
    std::vector<std::int64_t> all;
    for (std::int64_t step = 1; step <= last; ++step) all.push_back(step);
    return all;
  }

  Cluster cluster_;
  std::string program_, port_;
};

TEST_F(RealMlflow, ARunIsThereAsMlflowShowsIt) {
  start_server();
  Process& run = start_run({mlflow_job(cluster_, 5)});
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_FALSE(contains(run.out(), "MLflow:")) << run.out();

  const json::array found = runs();
  ASSERT_EQ(found.size(), 1u);
  const json::object& info = found[0].at("info").as_object();
  EXPECT_EQ(text_of(info, "status"), "FINISHED");
  EXPECT_EQ(text_of(info, "run_name"), "job");
  const std::string id = text_of(info, "run_id");
  EXPECT_EQ(steps(id, "loss"), up_to(5));
  EXPECT_TRUE(contains(json::serialize(found[0].at("data").at("params")),
                       R"({"key":"epochs","value":"5"})"))
      << json::serialize(found[0]);
  EXPECT_TRUE(exists(cluster_.path("artifacts/1/" + id + "/artifacts/spec.yaml")));
  EXPECT_TRUE(exists(cluster_.path("artifacts/1/" + id + "/artifacts/run.json")));
}

TEST_F(RealMlflow, TakesWhateverAProgramReports) {
  start_server();
  const std::string job =
      cluster_.job("job",
                   "command: [" + program("sdk_worker") +
                       "]\ntrain_loop_config: {mode: metrics}\nscaling_config: {num_workers: 1}",
                   "  callbacks: [mlflow]\n");
  Process& run = start_run({job});
  ASSERT_EQ(run.wait(), 0);
  EXPECT_FALSE(contains(run.out(), "MLflow:")) << run.out();  // NaN and infinity are taken
  EXPECT_EQ(steps(text_of(runs().at(0).at("info").as_object(), "run_id"), "loss"), up_to(2));
}

TEST_F(RealMlflow, KilledAndBackItHasEachPointOnce) {
  Process& server = start_server();
  const std::string go = cluster_.path("go");
  Process& run = start_run({mlflow_job(cluster_, 40, ", hold_at: [10, 30], hold_file: " + go)});
  ASSERT_TRUE(wait_until([&] {
    const json::array found = runs();
    return !found.empty() && found[0].at("data").as_object().contains("metrics");
  }));
  kill_server(server);
  cluster_.write("go-0-10", "");
  ASSERT_TRUE(wait_until([&] { return cluster_.metrics("job").size() >= 60; }));
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "MLflow: the server at "); }));
  start_server();
  cluster_.write("go-0-30", "");
  ASSERT_EQ(run.wait(), 0) << run.out();

  ASSERT_EQ(runs().size(), 1u);
  EXPECT_EQ(steps(text_of(runs()[0].at("info").as_object(), "run_id"), "loss"), up_to(40));
}

TEST_F(RealMlflow, AResumedRunGoesOnInIt) {
  start_server();
  const std::string go = cluster_.path("go");
  Process& first = start_run({mlflow_job(cluster_, 12, ", hold_at: [6], hold_file: " + go)});
  ASSERT_TRUE(wait_until([&] { return cluster_.metrics("job").size() >= 12; }));
  first.signal(SIGKILL);
  first.wait();
  cluster_.write("go-0-6", "");
  Process& second = start_run({"resume", cluster_.run_dir("job")});
  ASSERT_EQ(second.wait(), 0) << second.out() << second.err();

  ASSERT_EQ(runs().size(), 1u);
  EXPECT_EQ(text_of(runs()[0].at("info").as_object(), "status"), "FINISHED");
  EXPECT_EQ(steps(text_of(runs()[0].at("info").as_object(), "run_id"), "loss"), up_to(12));
}

}  // namespace
}  // namespace train::e2e
