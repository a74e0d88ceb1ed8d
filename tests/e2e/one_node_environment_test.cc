// What a worker finds in its environment: torchrun's variables, a master port that is really free,
// the submitter's own variables, and no secret of the cluster.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr const char* kTwoWorkers =
    "\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}";

/// Every worker writes its complete environment to environment-RANK.json.
std::string dump_script(const Cluster& cluster) {
  return cluster.write("dump.py",
                       "import json, os\njson.dump(dict(os.environ), open('environment-' + "
                       "os.environ['RANK'] + '.json', 'w'))\n");
}

boost::json::object environment_of(const Cluster& cluster, int rank) {
  return cluster
      .json_lines(cluster.read(cluster.path("environment-" + std::to_string(rank) + ".json")))
      .at(0);
}

TEST(Environment, HoldsAllOfTorchruns) {
  Cluster cluster;

  ASSERT_EQ(cluster.run({cluster.job(
                "job", "command: [python3, " + dump_script(cluster) + "]" + kTwoWorkers,
                "  failure_config: {max_failures: 4}")}),
            0);

  const auto env = environment_of(cluster, 1);
  const std::map<std::string, std::string> expected{{"RANK", "1"},
                                                    {"LOCAL_RANK", "1"},
                                                    {"WORLD_SIZE", "2"},
                                                    {"LOCAL_WORLD_SIZE", "2"},
                                                    {"GROUP_RANK", "0"},
                                                    {"GROUP_WORLD_SIZE", "1"},
                                                    {"ROLE_NAME", "default"},
                                                    {"ROLE_RANK", "1"},
                                                    {"ROLE_WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                    {"TORCHELASTIC_MAX_RESTARTS", "4"},
                                                    {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                    {"OMP_NUM_THREADS", "1"},
                                                    {"TRAINRUN_RUN_NAME", "job"},
                                                    {"TRAINRUN_ATTEMPT", "0"}};
  for (const auto& [name, value] : expected) EXPECT_EQ(text_of(env, name), value) << name;
  EXPECT_GT(std::stoi(text_of(env, "MASTER_PORT")), 1023);
  EXPECT_EQ(text_of(env, "MASTER_PORT"), text_of(environment_of(cluster, 0), "MASTER_PORT"));
  EXPECT_EQ(text_of(env, "TORCHELASTIC_RUN_ID"), text_of(env, "TRAINRUN_RUN_ID"));
  EXPECT_NE(text_of(env, "TORCHELASTIC_ERROR_FILE"),
            text_of(environment_of(cluster, 0), "TORCHELASTIC_ERROR_FILE"));
}

TEST(Environment, IsTheSubmittersWithTheSpecsOnTop) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [python3, " + dump_script(cluster) +
                             "]\nenv: {LEVEL: spec, OMP_NUM_THREADS: '3'}" + kTwoWorkers);

  ASSERT_EQ(
      cluster.run({job},
                  {.env = {{"DATA_HOME", "/data"}, {"LEVEL", "shell"}}, .prefix = {}, .cwd = ""}),
      0);

  const auto env = environment_of(cluster, 0);
  EXPECT_EQ(text_of(env, "DATA_HOME"), "/data");
  EXPECT_EQ(text_of(env, "LEVEL"), "spec");
  EXPECT_EQ(text_of(env, "OMP_NUM_THREADS"), "3");
}

TEST(Environment, OfADeterministicRunHasCublasWorkspaces) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [python3, " + dump_script(cluster) +
                             "]\nbackend_config: {deterministic: true}" + kTwoWorkers);
  const auto value = [&](const char* name) { return text_of(environment_of(cluster, 1), name); };

  ASSERT_EQ(cluster.run({job}), 0);

  EXPECT_EQ(value("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  EXPECT_EQ(value("TRAINRUN_DETERMINISTIC"), "1");
}

TEST(Environment, ShowsWorkersOnlyTheGpusThatTheyClaim) {
  Cluster cluster;
  const StartOptions shell{.env = {{"CUDA_VISIBLE_DEVICES", "3"}}, .prefix = {}, .cwd = ""};
  const std::string command = "command: [python3, " + dump_script(cluster) + "]";
  const auto visible = [&] { return text_of(environment_of(cluster, 0), "CUDA_VISIBLE_DEVICES"); };

  ASSERT_EQ(cluster.run({cluster.job("none", command)}, shell), 0);
  EXPECT_EQ(visible(), "");

  ASSERT_EQ(
      cluster.run({cluster.job("said", command + "\nenv: {CUDA_VISIBLE_DEVICES: '1'}")}, shell), 0);
  EXPECT_EQ(visible(), "1");
}

TEST(Environment, HoldsNoSecretOfTheCluster) {
  Cluster cluster;
  const std::string token = cluster.path("token");
  ASSERT_EQ(cluster.start({built("traind"), "token", token}).wait(), 0);
  const std::string secret = cluster.read(token);

  ASSERT_EQ(cluster.run({cluster.job("job", "command: [python3, " + dump_script(cluster) + "]" +
                                                kTwoWorkers)},
                        {.env = {{"TRAINRUN_TOKEN_FILE", token}, {"TRAINRUN_TOKEN", "also secret"}},
                         .prefix = {},
                         .cwd = ""}),
            0);

  const std::string env = boost::json::serialize(environment_of(cluster, 0));
  EXPECT_EQ(text_of(environment_of(cluster, 0), "TRAINRUN_TOKEN_FILE"), "(missing)");
  EXPECT_EQ(text_of(environment_of(cluster, 0), "TRAINRUN_TOKEN"), "(missing)");
  EXPECT_FALSE(contains(env, secret.substr(0, 16)));
}

TEST(Environment, AllOfItsMasterPortCanBeBoundByRankZeroAndReachedByRankOne) {
  Cluster cluster;
  // Opening a FIFO waits for the other end.
  const std::string listening = cluster.path("listening");
  ASSERT_EQ(::mkfifo(listening.c_str(), 0600), 0);
  const std::string script = cluster.write("meet.py", R"(import os, socket, sys
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(address)
    server.listen()
    open(sys.argv[1], "w").close()
    peer = server.accept()[0]
    print("met", peer.recv(100).decode(), flush=True)
else:
    open(sys.argv[1]).read()
    peer = socket.create_connection(address)
    peer.sendall(b"rank 1")
)");

  Process& run = cluster.train_run(
      {cluster.job("job", "command: [python3, " + script + ", " + listening + "]" + kTwoWorkers)});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "0] met rank 1\n")) << run.out();
}

}  // namespace
}  // namespace train::e2e
