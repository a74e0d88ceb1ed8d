// AWS' own addresses: no AWS_ENDPOINT_URL, the bucket in the host name, TLS, and a temporary key.
// moto answers for AWS in a network namespace with the test's own /etc/hosts and /etc/ssl.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRegion = "eu-central-1";

class Aws : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    if (tools_python().empty()) GTEST_SKIP() << "no server is installed";
    run("ip netns add " + name_);
    run("ip -n " + name_ + " link set lo up");
    fs::create_directories(etc_ + "/ssl/certs");
    run(fmt::format("printf '127.0.0.1 localhost {0} bucket.{0}\n' >{1}/hosts", host_, etc_));
    run(
        fmt::format("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                    "-days 2 -subj /CN=test "
                    "-addext subjectAltName=DNS:{0},DNS:*.{0} -keyout {1} -out {2}",
                    host_, cluster.path("key"), cluster.path("cert")));
    run(
        fmt::format("cp {} {}/ssl/certs/test.pem && cp {} {}/ssl/certs/ca-certificates.crt && "
                    "openssl rehash {}/ssl/certs",
                    cluster.path("cert"), etc_, cluster.path("cert"), etc_, etc_));
    StartOptions options = inside();
    server_ = &cluster.start(
        {tools_python(), std::string(TRAIN_SOURCE_DIR) + "/tests/e2e/programs/s3_server.py",
         cluster.write("rules", "[]"), "443", cluster.path("cert"), cluster.path("key")},
        options);
    ASSERT_TRUE(wait_until([&] { return contains(server_->out(), "\n") || !server_->running(); }));
    ASSERT_TRUE(server_->running()) << server_->err();
  }
  void TearDown() override {
    if (::geteuid() != 0) return;
    std::error_code ec;
    fs::remove_all(etc_, ec);
    (void)cluster.start({"ip", "netns", "del", name_}).wait();
  }
  void run(const std::string& command) {
    Process& process = cluster.start({"sh", "-c", command});
    ASSERT_EQ(process.wait(), 0) << command << process.err();
  }
  StartOptions inside() const {
    StartOptions options;
    options.prefix = {"ip", "netns", "exec", name_};
    options.env = {{"AWS_ACCESS_KEY_ID", "ASIATEST"},
                   {"AWS_SECRET_ACCESS_KEY", "not+a/secret"},
                   {"AWS_SESSION_TOKEN", "temporary"},
                   {"AWS_REGION", kRegion},
                   {"AWS_EC2_METADATA_DISABLED", "true"}};
    // Clear what this machine trusts otherwise.
    for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"})
      options.env[name] = "";
    return options;
  }

  Cluster cluster;
  const std::string host_ = fmt::format("s3.{}.amazonaws.com", kRegion);
  const std::string name_ = fmt::format("te-aws-{}", ::getpid());
  const std::string etc_ = "/etc/netns/" + name_;
  Process* server_ = nullptr;
};

TEST_F(Aws, ARunIsKeptUnderItsBucketsOwnName) {
  const std::string job = cluster.write(
      "job.yaml",
      fmt::format("name: job\ncommand: [{}]\ntrain_loop_config: {{mode: epochs, epochs: 3}}\n"
                  "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}\n"
                  "run_config:\n  storage_path: s3://bucket/runs\n",
                  program("sdk_worker")));

  Process& train = cluster.train_run({job}, inside());

  EXPECT_EQ(train.wait(), 0) << train.out() << train.err();
  Process& verify = cluster.train_run({"checkpoint", "verify", "s3://bucket/runs/job"}, inside());
  EXPECT_EQ(verify.wait(), 0) << verify.out() << verify.err();
  EXPECT_TRUE(contains(verify.out(), "3 of 3 checkpoints are intact")) << verify.out();
  std::istringstream requests(cluster.read(cluster.path("rules.log")));
  int count = 0;
  for (std::string line; std::getline(requests, line); ++count)
    EXPECT_TRUE(line.starts_with("bucket." + host_ + " token=temporary ")) << line;
  EXPECT_GT(count, 10);
}

}  // namespace
}  // namespace train::e2e
