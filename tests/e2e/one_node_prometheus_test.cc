// A real Prometheus reads the metrics of traind and of a dashboard, which it finds by its service
// discovery, and understands the rules that we install.
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"
#include "tests/fakes/http_server.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

class Prometheus : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"/usr/bin/prometheus", "/usr/bin/promtool"})
      if (!exists(name)) GTEST_SKIP() << "no " << name << ": run packaging/deps/install.sh test";
  }

  /// Start a traind with metrics, at address_.
  void start_traind() {
    Process& traind = cluster_.traind(
        {"--allow-root", "--metrics-listen", "127.0.0.1:0", "--listen", socket_, "--resource",
         "CPU=4", "--runtime-dir", cluster_.path("own"), "--spool-dir", cluster_.path("spool")});
    const std::string said = "msg=metrics listen=";
    ASSERT_TRUE(wait_until([&] { return contains(traind.err(), said); })) << traind.err();
    const std::string rest = traind.err().substr(traind.err().find(said) + said.size());
    address_ = rest.substr(0, rest.find('\n'));
  }

  /// Return what curl gets, with the status as its last line.
  std::string get(const std::string& url) {
    Process& curl = cluster_.start({"curl", "-s", "-w", "\n%{http_code}", url});
    curl.wait();
    return curl.out();
  }

  /// Start a dashboard of the cluster's runs, at address_.
  void start_dashboard() {
    Process& dashboard =
        cluster_.train_run({"dashboard", cluster_.storage(), "--listen", "127.0.0.1:0"});
    ASSERT_TRUE(wait_until([&] { return contains(dashboard.out(), "\n"); })) << dashboard.err();
    const std::string link = dashboard.out();
    const std::size_t host = link.find("http://") + 7, token = link.find("/?token=");
    ASSERT_NE(token, link.npos) << link;
    address_ = link.substr(host, token - host);
    token_ = link.substr(token + 8, link.find('\n') - token - 8);
  }

  /// Start a Prometheus that reads each second what `source` names, which continues the
  /// configuration of a job.
  void start_prometheus(const std::string& job, const std::string& source) {
    {
      const fakes::HttpServer free([](const fakes::ReceivedRequest&) { return fakes::Reply{}; });
      prometheus_ = "127.0.0.1:" + std::to_string(free.port());
    }
    const std::string config = cluster_.write(
        "prometheus.yml", "global: {scrape_interval: 1s}\nrule_files: [" TRAIN_SOURCE_DIR
                          "/packaging/prometheus/alerts.yaml]\nscrape_configs:\n  - job_name: " +
                              job + "\n    " + source + "\n");
    cluster_.start({"prometheus", "--config.file=" + config,
                    "--storage.tsdb.path=" + cluster_.path("tsdb"),
                    "--web.listen-address=" + prometheus_});
  }
  /// Return the value of a query with one sample, "" if there is none yet.
  std::string query(const std::string& text) {
    Process& curl = cluster_.start({"curl", "-s", "-G", "http://" + prometheus_ + "/api/v1/query",
                                    "--data-urlencode", "query=" + text});
    boost::system::error_code ec;
    curl.wait();
    const json::value answer = json::parse(curl.out(), ec);
    const json::value* value = ec ? nullptr : answer.find_pointer("/data/result/0/value/1", ec);
    return value != nullptr ? std::string(value->as_string()) : "";
  }

  Cluster cluster_;
  const std::string socket_ = "unix:" + cluster_.path("t.sock");
  std::string address_, token_, prometheus_;
};

TEST_F(Prometheus, ReadsANodeAndAnswersQueries) {
  start_traind();
  start_prometheus("traind", "static_configs: [{targets: ['" + address_ + "']}]");
  ASSERT_TRUE(wait_until([&] { return query("up{job='traind'}") == "1"; }));
  ASSERT_TRUE(wait_until([&] { return query("trainrun_node_draining") == "0"; }));
  EXPECT_EQ(query("trainrun_node_runs"), "0");
  EXPECT_EQ(query("count(trainrun_node_cpu_seconds_total)"), "8");
  EXPECT_EQ(query("trainrun_node_memory_available_bytes < bool trainrun_node_memory_total_bytes"),
            "1");
  EXPECT_EQ(query("trainrun_node_disk_total_bytes{folder='spool'} > bool 0"), "1");
}

TEST_F(Prometheus, FindsADashboardAndReadsItsRuns) {
  const std::string job = cluster_.job("job", "command: [" + program("plain_worker") +
                                                  ", hang]\nscaling_config: {num_workers: 2, "
                                                  "resources_per_worker: {CPU: 0}}");
  Process& run = cluster_.train_run({job});
  ASSERT_TRUE(wait_until([&] { return cluster_.workers().size() == 2; })) << run.err();
  start_dashboard();
  const std::string token = "{type: Bearer, credentials: '" + token_ + "'}";
  start_prometheus("trainrun",
                   "authorization: " + token + "\n    http_sd_configs: [{url: 'http://" + address_ +
                       "/api/v1/sd', refresh_interval: 1s, authorization: " + token + "}]");

  ASSERT_TRUE(wait_until([&] { return query("up{job='trainrun'}") == "1"; }));
  const std::string of_job = " * on(run) group_left(name) trainrun_run_info{name='job'}";
  ASSERT_TRUE(wait_until([&] { return query("trainrun_run_workers" + of_job) == "2"; }));
  EXPECT_EQ(query("trainrun_run_state{state='running'}" + of_job), "1");
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_TRUE(
      wait_until([&] { return query("trainrun_run_state{state='stopped'}" + of_job) == "1"; }));
}

TEST_F(Prometheus, FindsNothingWrongInThePage) {
  start_traind();
  const std::string page = get("http://" + address_ + "/metrics");
  ASSERT_TRUE(page.ends_with("\n200")) << page;
  const std::string file = cluster_.write("page", page.substr(0, page.size() - 3));
  Process& check = cluster_.start({"sh", "-c", "promtool check metrics <" + file});
  EXPECT_EQ(check.wait(), 0) << check.out() << check.err();
  EXPECT_EQ(check.out() + check.err(), "");
}

TEST_F(Prometheus, SeesWhatWorkersClaim) {
  start_traind();
  const std::string job = cluster_.job("job", "command: [" + program("plain_worker") +
                                                  ", hang]\nscaling_config: {num_workers: 3}\n"
                                                  "cluster: {nodes: ['" +
                                                  socket_ + "']}");
  Process& run = cluster_.train_run({job});
  ASSERT_TRUE(wait_until([&] { return cluster_.workers().size() == 3; })) << run.err();

  const std::string page = get("http://" + address_ + "/metrics");
  EXPECT_TRUE(contains(page, "\ntrainrun_node_resource_amount{resource=\"CPU\"} 4\n")) << page;
  EXPECT_TRUE(contains(page, "\ntrainrun_node_resource_claimed{resource=\"CPU\"} 3\n")) << page;
  EXPECT_TRUE(contains(page, "\ntrainrun_node_runs 1\n")) << page;
  EXPECT_FALSE(contains(page, "job")) << page;
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
}

TEST_F(Prometheus, IsToldHealthAndNothingElse) {
  start_traind();
  const std::string url = "http://" + address_;
  EXPECT_EQ(get(url + "/healthz"), "ok\n\n200");
  EXPECT_EQ(get(url + "/readyz"), "ready\n\n200");
  EXPECT_TRUE(get(url + "/").ends_with("\n404"));
  EXPECT_TRUE(get(url + "/metrics/x").ends_with("\n404"));
}

TEST_F(Prometheus, PassesTheTestsOfOurAlerts) {
  const std::string folder = TRAIN_SOURCE_DIR "/packaging/prometheus";
  Process& rules = cluster_.start({"promtool", "check", "rules", folder + "/alerts.yaml"});
  EXPECT_EQ(rules.wait(), 0) << rules.out() << rules.err();
  Process& tests = cluster_.start({"promtool", "test", "rules", folder + "/alerts_test.yaml"});
  EXPECT_EQ(tests.wait(), 0) << tests.out() << tests.err();
}

}  // namespace
}  // namespace train::e2e
