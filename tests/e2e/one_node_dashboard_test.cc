// `train-run dashboard` beside real runs: each answer against openapi.yaml, who may ask, and what
// users ask of a running run. tests/unit/launcher_dashboard has the rest.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <boost/json/parse.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class Dashboard : public testing::Test {
 protected:
  /// Start a dashboard of the cluster's runs, and wait until it listens.
  void start(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"dashboard", cluster_.storage(), "--listen", "127.0.0.1:0"});
    process_ = &cluster_.train_run(options);
    ASSERT_TRUE(wait_until([&] { return contains(process_->out(), "\n"); })) << process_->err();
    const std::string link = process_->out();
    const std::size_t token = link.find("/?token=");
    ASSERT_NE(token, link.npos) << link;
    url_ = link.substr(link.find("http"), token - link.find("http"));
    token_ = link.substr(token + 8, link.find('\n') - token - 8);
  }
  /// Return what curl gets, and after it the status.
  std::string curl(const std::string& path, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"curl", "-s", "-m", "60", "-w", "\n%{http_code}"});
    options.push_back(url_ + path);
    Process& process = cluster_.start(options);
    EXPECT_EQ(process.wait(), 0) << process.err();
    return process.out();
  }
  std::string get(const std::string& path, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"-H", "Authorization: Bearer " + token_});
    return curl(path, options);
  }
  std::string run_id() {
    const std::string answer = get("/api/v1/runs");
    return std::string(boost::json::parse(answer.substr(0, answer.rfind('\n')))
                           .at("runs")
                           .at(0)
                           .at("id")
                           .as_string());
  }

  Cluster cluster_;
  Process* process_ = nullptr;
  std::string url_, token_;
};

TEST_F(Dashboard, EachAnswerIsAsOpenapiSays) {
  if (tools_python().empty()) GTEST_SKIP() << "the tools' Python is not installed";
  ASSERT_EQ(cluster_.run(
                {cluster_.job("job", "command: [" + program("sdk_worker") +
                                         "]\ntrain_loop_config: {mode: metrics}\nscaling_config: "
                                         "{num_workers: 2, resources_per_worker: {CPU: 0}}")}),
            0);
  start();

  Process& check = cluster_.start(
      {tools_python(), TRAIN_SOURCE_DIR "/tests/e2e/programs/check_dashboard.py", url_, token_});

  EXPECT_EQ(check.wait(), 0) << check.out() << check.err();
  EXPECT_TRUE(contains(check.out(), " answers of 1 runs and 0 sweeps")) << check.out();
}

TEST_F(Dashboard, AnswersAboutASweepAreAsOpenapiSays) {
  if (tools_python().empty()) GTEST_SKIP() << "the tools' Python is not installed";
  ASSERT_EQ(
      cluster_.run(
          {"sweep", cluster_.job("job", "command: [" + program("sdk_worker") +
                                            "]\ntrain_loop_config: {mode: trial}\nscaling_config: "
                                            "{resources_per_worker: {CPU: 0}}\nsweep:\n  metric: "
                                            "loss\n  num_trials: 3\n  parameters: {x: {uniform: "
                                            "[0.125, 2]}, y: {choice: [a, [1, {b: null}]]}}")}),
      0);
  start();

  Process& check = cluster_.start(
      {tools_python(), TRAIN_SOURCE_DIR "/tests/e2e/programs/check_dashboard.py", url_, token_});

  EXPECT_EQ(check.wait(), 0) << check.out() << check.err();
  EXPECT_TRUE(contains(check.out(), " answers of 3 runs and 1 sweeps")) << check.out();
  EXPECT_TRUE(contains(get("/api/v1/runs?trials=false"), "\"total\":0"));
}

TEST_F(Dashboard, GoodputAndStragglersOfARunningRunAreShownAndAreAsOpenapiSays) {
  if (tools_python().empty()) GTEST_SKIP() << "the tools' Python is not installed";
  Process& run = cluster_.train_run({cluster_.job(
      "job", "command: [" + program("stepping_worker") +
                 "]\ntrain_loop_config: {step_ms: 10, slow_rank: 2, slow_ms: 20}\n"
                 "scaling_config: {num_workers: 6, resources_per_worker: {CPU: 0}}")});
  ASSERT_TRUE(wait_until([&] { return !cluster_.journal("job").empty(); })) << run.err();
  start();
  const std::string path = "/api/v1/runs/" + run_id();

  ASSERT_TRUE(wait_until([&] {
    return contains(get(path), "\"stragglers\":[{\"rank\":2,") &&
           contains(get(path + "/attempts/0/ranks/2"), "\"straggler\":true") &&
           contains(get(path + "/attempts/0/ranks/1"), "\"straggler\":false") &&
           contains(get(path + "/goodput"), "\"total\":{\"step\":");
  })) << get(path)
      << get(path + "/goodput");
  Process& check = cluster_.start(
      {tools_python(), TRAIN_SOURCE_DIR "/tests/e2e/programs/check_dashboard.py", url_, token_});
  EXPECT_EQ(check.wait(), 0) << check.out() << check.err();

  run.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "stopping"); }));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_TRUE(contains(get(path), "\"stragglers\":[]"));
  EXPECT_TRUE(contains(get(path), "\"goodput_ratio\":0."));
}

TEST_F(Dashboard, AProfileOfARankIsTakenAndServed) {
  Process& run = cluster_.train_run(
      {cluster_.job("job",
                    "command: [" + program("hanging_worker") +
                        "]\ntrain_loop_config: {how: loop}\nscaling_config: {num_workers: "
                        "2, resources_per_worker: {CPU: 0}}",
                    "  failure_config: {hang_timeout: 1h}")});
  ASSERT_TRUE(wait_until([&] { return cluster_.metrics("job").size() >= 6; })) << run.err();
  start({"--allow-actions"});
  const std::string path = "/api/v1/runs/" + run_id();
  const std::vector<std::string> body = {"-H", "Content-Type: application/json", "-d",
                                         R"({"rank":1,"kind":"cpu","seconds":1})"};
  auto foreign = body;
  const std::string port = url_.substr(url_.rfind(':') + 1);
  foreign.insert(foreign.end(), {"-H", "Cookie: trainrun_dashboard_" + port + "=" + token_, "-H",
                                 "Origin: http://evil.example"});
  EXPECT_TRUE(contains(curl(path + "/profile", foreign), "\n403"));
  EXPECT_TRUE(contains(curl(path + "/profile", body), "\n401"));

  EXPECT_TRUE(contains(get(path + "/profile", body), "\n202"));

  std::string task;
  ASSERT_TRUE(wait_until([&] {
    task = get(path + "/tasks/1");
    return contains(task, "\"state\":\"done\"");
  })) << task;
  const auto files = boost::json::parse(task.substr(0, task.rfind('\n'))).at("files").as_array();
  ASSERT_EQ(files.size(), 4U) << task;
  for (const auto& file : files) {
    const std::string text = get(path + "/files/" + std::string(file.as_string()));
    EXPECT_TRUE(contains(text, "hang")) << file << text;
    EXPECT_TRUE(contains(text, "\n200")) << file;
  }
  run.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "stopping"); }));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
}

TEST_F(Dashboard, NobodyWithoutTheTokenReadsOrActs) {
  start();

  EXPECT_TRUE(contains(curl("/api/v1/runs"), "\n401"));
  EXPECT_TRUE(contains(curl("/metrics"), "\n401"));
  EXPECT_TRUE(contains(curl("/healthz"), "ok\n\n200"));
  EXPECT_TRUE(contains(get("/api/v1/runs", {"-H", "Host: evil.example"}), "\n403"));
  EXPECT_TRUE(contains(get("/api/v1/runs/x/stop", {"-X", "POST"}), "this dashboard only reads"));
  EXPECT_TRUE(contains(curl("/?token=" + token_, {"-i"}), "HttpOnly; SameSite=Strict"));
  EXPECT_TRUE(contains(get("/%2e%2e/etc/passwd", {"--path-as-is"}), "\n400"));
  process_->signal(SIGTERM);
  EXPECT_EQ(process_->wait(), 0);
}

TEST_F(Dashboard, ARunningRunIsShownAndStopped) {
  Process& run = start_waiting_worker(cluster_);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "before"); })) << run.err();
  start({"--allow-actions"});
  const std::string path = "/api/v1/runs/" + run_id();

  EXPECT_TRUE(wait_until([&] { return contains(get(path + "/logs"), "\"text\":\"before\""); }));
  EXPECT_TRUE(contains(get("/api/v1/runs?state=running"), "\"live\":true"));
  EXPECT_TRUE(contains(get("/metrics"), "state=\"running\"} 1\n"));
  EXPECT_TRUE(contains(get(path + "/stop", {"-X", "POST"}), "\n202"));
  EXPECT_TRUE(contains(get(path + "/stop", {"-X", "POST"}), "\n409"));
  cluster_.write("go", "");

  EXPECT_TRUE(run.wait().has_value());
  EXPECT_TRUE(wait_until([&] { return contains(get(path + "/tasks/1"), "\"state\":\"done\""); }));
}

TEST_F(Dashboard, WithACertificateItServesTlsOnly) {
  Process& made =
      cluster_.start({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                      "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"});
  ASSERT_EQ(made.wait(), 0) << made.err();
  ASSERT_EQ(::chmod(cluster_.path("key.pem").c_str(), 0600), 0);
  start({"--tls-cert", "cert.pem", "--tls-key", "key.pem"});

  EXPECT_TRUE(url_.starts_with("https://127.0.0.1:")) << url_;
  EXPECT_TRUE(contains(get("/api/v1/runs", {"-k"}), "\n200"));
  EXPECT_TRUE(contains(curl("/?token=" + token_, {"-k", "-i"}), "SameSite=Strict; Secure"));
  url_.replace(0, 5, "http");
  EXPECT_NE(cluster_.start({"curl", "-s", url_ + "/healthz"}).wait(), 0);
}

TEST_F(Dashboard, ANameThatIsNoRunEndsIt) {
  Process& process = cluster_.train_run({"dashboard", "nonesuch"});

  EXPECT_EQ(process.wait(), 66);
  EXPECT_TRUE(contains(process.err(), "train-run: error: no run 'nonesuch'")) << process.err();
}

TEST_F(Dashboard, OffLoopbackItNeedsTls) {
  Process& process = cluster_.train_run({"dashboard", "--listen", "0.0.0.0:0"});

  EXPECT_EQ(process.wait(), 2);
  EXPECT_TRUE(contains(process.err(),
                       "train-run: error: 0.0.0.0:0 can be reached from other machines, which "
                       "needs TLS\ntrain-run: give --tls-cert and --tls-key"))
      << process.err();
}

}  // namespace
}  // namespace train::e2e
