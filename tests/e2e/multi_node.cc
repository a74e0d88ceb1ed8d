#include "tests/e2e/multi_node.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <set>
#include <sstream>

namespace train::e2e {
namespace {

// All of 127/8 is this machine. The pid of a test chooses its range.
std::string loopback_address(int node) {
  const int pid = ::getpid();
  return fmt::format("127.{}.{}.{}", 1 + (pid / 250) % 250, 1 + pid % 250, 1 + node);
}

std::string make_token(Cluster& cluster) {
  std::string path = cluster.path("token");
  if (!exists(path)) EXPECT_EQ(cluster.start({built("traind"), "token", path}).wait(), 0);
  return path;
}

/// Add the cluster's token if `more` has no other token and no certificates.
std::vector<std::string> with_token(std::vector<std::string> arguments,
                                    const std::vector<std::string>& more,
                                    const std::string& token) {
  const std::vector<std::string> instead{"--token-file", "--tls"};
  if (std::find_first_of(more.begin(), more.end(), instead.begin(), instead.end()) == more.end())
    arguments.insert(arguments.end(), {"--token-file", token});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

Nodes::Nodes(Cluster& cluster, int count)
    : cluster_(cluster), token_(make_token(cluster)), daemons_(count) {
  for (int node = 0; node < count; ++node) addresses_.push_back(loopback_address(node));
}

Nodes::Nodes(Cluster& cluster, const Network& network, int count)
    : cluster_(cluster), network_(&network), token_(make_token(cluster)), daemons_(count) {
  for (int node = 0; node < count; ++node) addresses_.push_back(network.address(node));
}

std::string Nodes::endpoint(int node) const { return addresses_.at(node) + ":7070"; }

std::string Nodes::hosts(int count) const {
  std::string text;
  for (int node = 0; node < count; ++node)
    text += fmt::format("{}{}", node == 0 ? "" : ",", endpoint(node));
  return text;
}

std::vector<std::string> Nodes::daemon_arguments(int node) const {
  return {"--listen",      endpoint(node),
          "--node-name",   fmt::format("n{}", node),
          "--runtime-dir", cluster_.path(fmt::format("rt-n{}", node)),
          "--spool-dir",   cluster_.path(fmt::format("sp-n{}", node)),
          "--allow-root"};
}

Process& Nodes::start(int node, const std::vector<std::string>& more,
                      const std::vector<std::string>& prefix) {
  const std::vector<std::string> arguments = with_token(daemon_arguments(node), more, token_);
  StartOptions options;
  if (network_ != nullptr) options.prefix = network_->on_node(node);
  options.prefix.insert(options.prefix.end(), prefix.begin(), prefix.end());
  Process& daemon = cluster_.traind(arguments, options);
  daemons_[node] = &daemon;
  EXPECT_TRUE(wait_until([&] {
    return contains(daemon.err(), "msg=listening") || !daemon.running();
  })) << daemon.err();
  return daemon;
}

void Nodes::start_all(const std::vector<std::string>& more) {
  for (int node = 0; node < static_cast<int>(daemons_.size()); ++node) start(node, more);
}

Process& Nodes::train_run(const std::string& job, int count, const std::vector<std::string>& more) {
  const std::vector<std::string> arguments =
      with_token(count == 0 ? std::vector<std::string>{job}
                            : std::vector<std::string>{job, "--hosts", hosts(count)},
                 more, token_);
  StartOptions options;
  if (network_ != nullptr) options.prefix = network_->on_hub();
  return cluster_.train_run(arguments, options);
}

Process& Nodes::resume(const std::string& run) {
  StartOptions options;
  if (network_ != nullptr) options.prefix = network_->on_hub();
  return cluster_.train_run({"resume", cluster_.run_dir(run)}, options);
}

Process& Nodes::drain(int node) {
  return cluster_.traind({"drain", "--runtime-dir", cluster_.path(fmt::format("rt-n{}", node))});
}

void Nodes::power_off(int node) {
  network_->cut(node);
  EXPECT_TRUE(wait_until([&] {
    bool any = false;
    for (const Seen& seen : cluster_.processes()) {
      if (!network_->holds(node, seen.pid)) continue;
      any = true;
      send_signal(seen.pid, SIGKILL);
    }
    return !any;
  }));
  (void)daemon(node).wait();
}

Process& Nodes::power_on(int node) {
  std::error_code ec;
  std::filesystem::remove_all(cluster_.path(fmt::format("rt-n{}", node)), ec);
  Process& daemon = start(node);
  network_->mend(node);
  return daemon;
}

std::optional<pid_t> Nodes::supervisor_on(int node) const {
  for (const Seen& seen : cluster_.processes(" supervise ")) {
    if (contains(seen.command, cluster_.path(fmt::format("sp-n{}/", node)))) return seen.pid;
  }
  return std::nullopt;
}

std::vector<pid_t> Nodes::workers_on(int node) const {
  std::vector<pid_t> pids;
  const std::optional<pid_t> supervisor = supervisor_on(node);
  for (const Seen& seen : cluster_.workers()) {
    if (supervisor && seen.parent == *supervisor) pids.push_back(seen.pid);
  }
  return pids;
}

void ThreeNodes::SetUp() {
  static const std::string missing = Network::missing();
  if (!missing.empty()) GTEST_SKIP() << "SKIPPED: " << missing;
  network = std::make_unique<Network>(3);
  cluster = std::make_unique<Cluster>();
  nodes = std::make_unique<Nodes>(*cluster, *network, 3);
}

void ThreeNodes::TearDown() {
  nodes.reset();
  cluster.reset();  // its processes keep the namespaces alive
  network.reset();
}

void NoStorage::SetUp() {
  ThreeNodes::SetUp();
  if (!IsSkipped()) ::mkdir(cluster->storage().c_str(), 0755);
}

Process& NoStorage::start_without_storage(int node) {
  const std::string hide =
      fmt::format("mount -t tmpfs none {} && exec \"$0\" \"$@\"", cluster->storage());
  return nodes->start(node, {"--resource", "CPU=1"}, {"unshare", "-m", "sh", "-c", hide});
}

std::string NoStorage::job(const std::string& loop, const std::string& run_config) const {
  return cluster->job(
      "job",
      fmt::format("command: [{}]\nscaling_config: {{num_workers: 2, placement_strategy: SPREAD}}\n"
                  "train_loop_config: {{mode: big, epochs: {}, bytes: {}, hold_file: '{}', "
                  "hold_attempts: 9, {}}}\n",
                  program("sdk_worker"), kEpochs, kBytes, cluster->path("go"), loop),
      run_config);
}

void NoStorage::go_on(int attempt, int epoch) const {
  cluster->write(fmt::format("go-{}-{}", attempt, epoch), "");
}

std::string NoStorage::checkpoint(int number) const {
  return fmt::format("{}/checkpoints/checkpoint_{:06}", cluster->run_dir("job"), number);
}

bool NoStorage::committed(int number) const {
  return exists(checkpoint(number) + "/.manifest.json");
}

std::string NoStorage::log_of(int rank, int attempt) const {
  return cluster->read(fmt::format("{}/attempts/{:03}/ranks/{:04}/stdout.log",
                                   cluster->run_dir("job"), attempt, rank));
}

std::vector<Reported> reports(const Cluster& cluster, const std::string& run) {
  std::vector<Reported> all;
  for (const boost::json::object& line : cluster.metrics(run)) {
    const boost::json::object& metrics = line.at("metrics").as_object();
    all.push_back({static_cast<int>(line.at("attempt").as_int64()),
                   static_cast<int>(line.at("rank").as_int64()), metrics.at("epoch").as_int64()});
  }
  return all;
}

void expect_exactly_once(const std::vector<Reported>& reports) {
  std::map<std::pair<int, int>, std::int64_t> last;
  for (const Reported& report : reports) {
    const auto [found, first] = last.try_emplace({report.attempt, report.rank}, report.epoch);
    if (first) continue;
    EXPECT_EQ(report.epoch, found->second + 1)
        << "attempt " << report.attempt << ", rank " << report.rank;
    found->second = report.epoch;
  }
}

int restarts(const Cluster& cluster, const std::string& run) {
  int count = 0;
  for (const boost::json::object& event : cluster.journal(run))
    count += text_of(event, "trigger") == "restart_decided";
  return count;
}

void expect_verdict_in_time(const std::string& text, Seconds node_dead_after) {
  constexpr Seconds kNextCall{15};  // its pause and its limits, on a busy machine
  const std::string begin = "no heartbeat for ";
  const std::size_t at = text.find(begin);
  ASSERT_NE(at, std::string::npos) << text;
  std::istringstream said(text.substr(at + begin.size()));
  double silent = -1;
  std::string unit;
  said >> silent >> unit;
  ASSERT_TRUE(unit.starts_with("s")) << text.substr(at, 60);
  EXPECT_GE(silent, node_dead_after.count()) << text.substr(at, 60);
  EXPECT_LT(silent, (node_dead_after + kNextCall).count()) << text.substr(at, 60);
}

std::string torch_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/torch-venv-2.11.0-2/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string python_program(const std::string& name) {
  return std::string(TRAIN_SOURCE_DIR) + "/tests/e2e/programs/" + name;
}

}  // namespace train::e2e
