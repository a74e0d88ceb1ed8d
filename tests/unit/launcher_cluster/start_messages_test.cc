#include "launcher/cluster/links/start_messages.h"

#include <gtest/gtest.h>

namespace train {
namespace {

/// Makes a run "vit" of two workers on each of two nodes.
class StartMessagesTest : public testing::Test {
 protected:
  void SetUp() override {
    spec_.command = {"./train", "--fast"};
    spec_.working_dir = "/home/alice";
    spec_.env = {{"OMP_NUM_THREADS", "4"}};
    spec_.scaling_config.resources_per_worker = {
        .cpu = 2.5, .gpu = 1, .memory_bytes = 1u << 30, .custom = {{"ssd", 2}}};
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = "/runs";
  }
  static Placement placement() {
    return {.world_size = 4,
            .nodes = {{NodeId{7}, NodeRank{0}, Rank{0}, 2}, {NodeId{3}, NodeRank{1}, Rank{2}, 2}},
            .reason = "",
            .never = false};
  }
  Prepare prepare() const {
    return {.attempt = Attempt{5}, .placed = placement().nodes[1], .bind_master = true};
  }
  PrepareAttempt prepared(const std::map<std::string, std::string>& env = {}) const {
    return prepare_message(spec_, run_, prepare(), "10.0.0.1", env);
  }

  JobSpec spec_;
  const RunIdentity run_{"id-1", "vit", Generation{3}, "/runs/vit", "marker-1"};
};

TEST_F(StartMessagesTest, ANodeIsToldWhatItsWorkersMayHave) {
  spec_.scaling_config.cpu_limit = true;
  spec_.scaling_config.pids_per_worker = 77;
  spec_.run_config.umask.bits = 027;
  spec_.run_config.rlimits = {{"nofile", 123}};
  spec_.run_config.keep_capabilities = true;
  spec_.run_config.failure_config.stop_grace = seconds(7);
  spec_.run_config.checkpoint_config.upload_timeout = seconds(9);
  spec_.run_config.checkpoint_config.replicas = 2;

  const PrepareAttempt message = prepared();

  EXPECT_EQ(message.node_rank, 1);
  EXPECT_EQ(message.local_world_size, 2);
  EXPECT_EQ(message.per_worker.cpu, 2.5);
  EXPECT_EQ(message.per_worker.gpu, 1);
  EXPECT_EQ(message.per_worker.memory_bytes, 1u << 30);
  EXPECT_EQ(message.per_worker.custom, (std::map<std::string, double>{{"ssd", 2}}));
  EXPECT_EQ(message.limits.umask, 027u);
  EXPECT_EQ(message.limits.rlimits, (std::map<std::string, std::int64_t>{{"nofile", 123}}));
  EXPECT_TRUE(message.limits.keep_capabilities);
  EXPECT_TRUE(message.limits.cpu_limit);
  EXPECT_EQ(message.limits.pids_max, 77u);
  EXPECT_TRUE(message.bind_master);
  EXPECT_FALSE(message.standby);
  EXPECT_EQ(message.bind_address, "10.0.0.1");
  EXPECT_EQ(message.generation, 3u);
  EXPECT_EQ(message.run_dir, "/runs/vit");
  EXPECT_EQ(message.storage_marker, "marker-1");
  EXPECT_EQ(message.stop_grace_ms, 7000);
  EXPECT_EQ(message.upload_timeout_ms, 9000);
  EXPECT_EQ(message.replicas, 2);
}

TEST_F(StartMessagesTest, ANodeIsToldWhereTheCodeIs) {
  EXPECT_EQ(prepared().code, "");

  RunIdentity run = run_;
  run.code = "/runs/vit/code/0123";
  EXPECT_EQ(prepare_message(spec_, run, prepare(), "10.0.0.1", {}).code, run.code);
}

TEST_F(StartMessagesTest, IngestWorkersHaveTheirClaimsAndLimits) {
  Prepare with_ingest = prepare();
  with_ingest.ingest = {.cpu = 3, .custom = {}};
  IngestSpec& ingest = spec_.datasets["train"].ingest;
  ingest.workers = {2, 4};
  ingest.resources_per_worker = {.cpu = 1.5, .memory_bytes = 1u << 20, .custom = {}};
  ingest.timeout = seconds(9);

  EXPECT_EQ(prepare_message(spec_, run_, with_ingest, "10.0.0.1", {}).ingest.cpu, 3);
  EXPECT_EQ(ingest_message(spec_, {Attempt{5}, NodeId{3}, "train", 2, /*for_others=*/true}),
            (StartIngest{.dataset = "train",
                         .slot = 2,
                         .claim = {.cpu = 1.5, .memory_bytes = 1u << 20, .custom = {}},
                         .timeout_ms = 9000,
                         .flight = true}));
}

TEST_F(StartMessagesTest, CheckpointsAreRelayedUnlessTheSpecNeedsSharedStorage) {
  EXPECT_TRUE(prepared().may_relay);
  spec_.run_config.shared_storage = SharedStorageNeed::Required;
  EXPECT_FALSE(prepared().may_relay);
  spec_.run_config.shared_storage = SharedStorageNeed::Auto;
  spec_.run_config.storage_path = "s3://bucket/runs";
  EXPECT_FALSE(prepared().may_relay);
}

TEST_F(StartMessagesTest, ANodeHearsHowAStoreIsReachedOnlyWhereItNeedsOne) {
  const std::map<std::string, std::string> env{{"AWS_ACCESS_KEY_ID", "id"}, {"PATH", "/bin"}};
  EXPECT_TRUE(prepared(env).storage_env.empty());
  spec_.resume_from_checkpoint = "s3://bucket/runs/old/checkpoints/checkpoint_000001";
  EXPECT_EQ(prepared(env).storage_env,
            (std::map<std::string, std::string>{{"AWS_ACCESS_KEY_ID", "id"}}));
}

TEST_F(StartMessagesTest, WorkersOfADeterministicRunGetWhatCublasNeeds) {
  using Env = std::map<std::string, std::string>;
  Start action{.attempt = Attempt{5}, .placed = placement().nodes.at(1)};
  action.placement = SharedValue<Placement>(placement());
  const auto env_of = [&](const Env& env) { return start_message(spec_, run_, action, env).env; };
  EXPECT_EQ(env_of({}), Env{});

  spec_.deterministic = true;

  EXPECT_EQ(env_of({}),
            (Env{{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}, {"TRAINRUN_DETERMINISTIC", "1"}}));
  EXPECT_EQ(env_of({{"CUBLAS_WORKSPACE_CONFIG", ":16:8"}}).at("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
}

TEST_F(StartMessagesTest, WorkersAreToldOfTheirRun) {
  spec_.train_loop_config = {{"lr", 1}};
  spec_.metadata = {{"team", "a"}};
  spec_.collectives = "gloo";
  spec_.collective_timeout = seconds(11);
  spec_.run_config.failure_config.max_failures = 3;
  Start action{.attempt = Attempt{5}, .placed = placement().nodes.at(1)};
  action.placement = SharedValue<Placement>(placement());
  action.master_addr = "10.0.0.7";
  action.master_port = 4711;
  action.restart_count = 2;
  action.restore = CheckpointInfo{9, "/runs/vit/checkpoints/checkpoint_000009", 6};

  StartWorkers message = start_message(spec_, run_, action, {{"PATH", "/bin"}});

  EXPECT_EQ(message.run.run_id, "id-1");
  EXPECT_EQ(message.run.run_name, "vit");
  EXPECT_EQ(message.command, (std::vector<std::string>{"./train", "--fast"}));
  EXPECT_EQ(message.working_dir, "/home/alice");
  EXPECT_EQ(message.env, (std::map<std::string, std::string>{{"PATH", "/bin"}}));
  EXPECT_EQ(message.job_env, std::vector<std::string>{"OMP_NUM_THREADS"});
  EXPECT_EQ(message.cpus_per_worker, 2.5);
  EXPECT_EQ(message.run.master_addr, "10.0.0.7");
  EXPECT_EQ(message.run.master_port, 4711u);
  EXPECT_EQ(message.restart_count, 2);
  EXPECT_EQ(message.max_restarts, 3);
  EXPECT_EQ(message.run.config_json, R"({"lr":1})");
  EXPECT_EQ(message.run.metadata_json, R"({"team":"a"})");
  EXPECT_EQ(message.run.datasets_json, "{}");
  EXPECT_EQ(message.run.collectives, "gloo");
  EXPECT_EQ(message.run.collective_timeout_ms, 11000);
  EXPECT_EQ(message.run.restore_dir, "/runs/vit/checkpoints/checkpoint_000009");
  EXPECT_EQ(message.run.restored_epoch, 6);
  EXPECT_EQ(message.standby, 0);

  action.restore.reset();
  const StartWorkers fresh = start_message(spec_, run_, action, {});
  EXPECT_EQ(fresh.run.restore_dir, "");
  EXPECT_EQ(fresh.run.restored_epoch, -1);
}

TEST_F(StartMessagesTest, WorkersOfABackendAreToldOfTheirPeers) {
  spec_.backend = Backend::Jax;
  Start action{.attempt = Attempt{5}, .placed = placement().nodes.at(1)};
  action.placement = SharedValue<Placement>(placement());
  action.peers = SharedValue<std::vector<std::string>>({"a:1", "a:2", "b:1", "b:2"});

  const StartWorkers message = start_message(spec_, run_, action, {});

  EXPECT_EQ(message.backend, BackendProfile{.name = "jax"});
  EXPECT_EQ(message.peers, (std::vector<std::string>{"a:1", "a:2", "b:1", "b:2"}));
  EXPECT_TRUE(message.node_sizes.empty());
  spec_.backend = Backend::Mpi;
  EXPECT_EQ(start_message(spec_, run_, action, {}).node_sizes, (std::vector<std::int32_t>{2, 2}));
  Prepare prepare{.attempt = Attempt{5}, .placed = placement().nodes.at(1)};
  prepare.ports_per_worker = 3;
  EXPECT_EQ(prepare_message(spec_, run_, prepare, "", {}).ports_per_worker, 3);
}

TEST_F(StartMessagesTest, EachNodeHearsOfItsOwnRanks) {
  Start action{.attempt = Attempt{5}, .placed = placement().nodes.at(1)};
  action.placement = SharedValue<Placement>(placement());
  StartWorkers message;
  for (int round = 0; round < 2; ++round) {  // the message is reused
    set_node(message, action);
    WorkerRanks first{
        .world_size = 4, .rank = 2, .local_world_size = 2, .node_rank = 1, .node_count = 2};
    WorkerRanks second = first;
    second.rank = 3, second.local_rank = 1;
    EXPECT_EQ(message.workers, (std::vector<WorkerRanks>{first, second}));
  }
}

TEST_F(StartMessagesTest, ProcessesThatStandByHaveTheProgramAndNoRanks) {
  const StartWorkers message = standby_message(spec_, run_, 3, {{"PATH", "/bin"}});
  EXPECT_EQ(message.standby, 3);
  EXPECT_EQ(message.command, (std::vector<std::string>{"./train", "--fast"}));
  EXPECT_TRUE(message.workers.empty());
}

TEST_F(StartMessagesTest, TheSetupOfANodeHasTheWorkersEnvironment) {
  EXPECT_EQ(node_setup(spec_, run_, "boot/1", {{"A", "b"}}), NodeSetup{}) << "there is none";
  spec_.per_node_setup = {.command = {"./prepare.sh"}, .timeout = seconds(90)};
  spec_.deterministic = true;

  const NodeSetup setup = node_setup(spec_, run_, "boot/1", {{"A", "b"}});

  EXPECT_EQ(setup, (NodeSetup{.command = {"./prepare.sh"},
                              .working_dir = "/home/alice",
                              .env = start_message(spec_, run_, {}, {{"A", "b"}}).env,
                              .job_env = {"OMP_NUM_THREADS"},
                              .run_name = "vit",
                              .cpus_per_worker = 2.5,
                              .timeout_ms = 90'000,
                              .done_in = "boot/1"}));
  EXPECT_EQ(setup.env.at("A"), "b");
}

TEST(StartSize, WhatDoesNotFitAFrameIsNamed) {
  JobSpec spec;
  spec.command = {"./train"};
  EXPECT_TRUE(check_start_size(spec, {{"A", std::string(3'100'000, 'a')}}));

  const auto large = check_start_size(spec, {{"A", std::string(3'200'000, 'a')}});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Errc::InvalidSpec);
  // 7 + 4 bytes of the command, 1 + 8 of the variable, and three times {}.
  EXPECT_EQ(
      large.error().message,
      "the start-up data of workers takes 3200026 bytes, 3200009 of them for the environment; in "
      "total (train_loop_config, metadata, datasets, the environment, command) it may take at most "
      "3145728");

  spec.metadata = {{"a", std::string(2'000'000, 'm')}};
  spec.train_loop_config = {{"a", std::string(1'500'000, 'c')}};
  const auto sum = check_start_size(spec, {});
  ASSERT_FALSE(sum);
  EXPECT_NE(sum.error().message.find("of them for metadata"), std::string::npos)
      << sum.error().message;
}

}  // namespace
}  // namespace train
