#include "launcher/cluster/links/start_frames.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

TEST(StartFrames, GivesWorkersTheSubmittersEnvironmentWithoutWhatIsTheLaunchers) {
  JobSpec spec;
  spec.env = {{"OMP_NUM_THREADS", "4"}, {"KEY", "env:MY_KEY"}};
  const auto env = worker_environment_base(spec, {{"PATH", "/bin"},
                                                  {"TRAINRUN_TOKEN_FILE", "/t"},
                                                  {"TORCHELASTIC_RUN_ID", "x"},
                                                  {"MY_KEY", "s3cret"}});
  ASSERT_TRUE(env) << env.error().describe();
  EXPECT_EQ(
      *env,
      (std::map<std::string, std::string>{
          {"PATH", "/bin"}, {"OMP_NUM_THREADS", "4"}, {"KEY", "s3cret"}, {"MY_KEY", "s3cret"}}));
}

TEST(StartFrames, ReadsTheEpochMetricWhateverItsType) {
  EXPECT_EQ(epoch_of({{"loss", 0.5}, {"epoch", std::int64_t{7}}}), 7);
  EXPECT_EQ(epoch_of({{"epoch", 3.0}}), 3);
  EXPECT_EQ(epoch_of({{"loss", 0.5}}), -1);
}

TEST(StartFrames, WaitsForATraindThatIsAwayForAsLongAsItsWorkersDo) {
  TempFolder temp;
  ::setenv("XDG_STATE_HOME", (temp.path() + "/state").c_str(), 1);
  JobSpec spec;
  spec.run_config.name = "vit";
  spec.run_config.storage_path = temp.path();
  const auto record = RunRecord::open(spec, {.build = "test"});
  ASSERT_TRUE(record) << record.error().describe();
  FailureConfig& failure = spec.run_config.failure_config;
  failure.node_dead_after = seconds(10);
  for (const auto& [orphan_timeout, waits] :
       {std::pair<Duration, Duration>{std::chrono::minutes(25), std::chrono::minutes(25)},
        std::pair<Duration, Duration>{seconds(0), seconds(10)}}) {
    failure.orphan_timeout = orphan_timeout;
    const DaemonLinkOptions link = link_options(spec.run_config, **record, "test");
    EXPECT_EQ(link.limits.away_limit, waits);
    EXPECT_EQ(milliseconds(link.attach.orphan_timeout_ms), orphan_timeout);
    EXPECT_EQ(link.limits.dead_after, seconds(10));
  }
}

/// A run "vit" of two workers on each of two nodes.
class StartFramesTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    spec_.command = {"./train", "--fast"};
    spec_.working_dir = "/home/alice";
    spec_.env = {{"OMP_NUM_THREADS", "4"}};
    spec_.scaling_config.resources_per_worker = {
        .cpu = 2.5, .gpu = 1, .memory_bytes = 1u << 30, .custom = {{"ssd", 2}}};
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = temp_.path();
    auto record = RunRecord::open(spec_, {.build = "test"});
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
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
    return prepare_message(spec_, *record_, prepare(), "10.0.0.1", env);
  }

  TempFolder temp_;
  JobSpec spec_;
  std::unique_ptr<RunRecord> record_;
};

TEST_F(StartFramesTest, ANodeIsToldWhatItsWorkersMayHave) {
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
  EXPECT_EQ(message.generation, 1u);
  EXPECT_EQ(message.run_dir, temp_.path() + "/vit");
  EXPECT_EQ(message.storage_marker, record_->storage_marker());
  EXPECT_EQ(message.stop_grace_ms, 7000);
  EXPECT_EQ(message.upload_timeout_ms, 9000);
  EXPECT_EQ(message.replicas, 2);
}

TEST_F(StartFramesTest, CheckpointsTravelUnlessTheSpecNeedsSharedStorage) {
  EXPECT_TRUE(prepared().may_relay);
  spec_.run_config.shared_storage = SharedStorageNeed::Required;
  EXPECT_FALSE(prepared().may_relay);
  spec_.run_config.shared_storage = SharedStorageNeed::Auto;
  spec_.run_config.storage_path = "s3://bucket/runs";
  EXPECT_FALSE(prepared().may_relay);
}

TEST_F(StartFramesTest, ANodeHearsHowAStoreIsReachedOnlyWhereItNeedsOne) {
  const std::map<std::string, std::string> env{{"AWS_ACCESS_KEY_ID", "id"}, {"PATH", "/bin"}};
  EXPECT_TRUE(prepared(env).storage_env.empty());
  spec_.resume_from_checkpoint = "s3://bucket/runs/old/checkpoints/checkpoint_000001";
  EXPECT_EQ(prepared(env).storage_env,
            (std::map<std::string, std::string>{{"AWS_ACCESS_KEY_ID", "id"}}));
}

TEST_F(StartFramesTest, WorkersAreToldOfTheirRun) {
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

  StartWorkers message = start_message(spec_, *record_, action, {{"PATH", "/bin"}});

  EXPECT_EQ(message.run_id, record_->run_id());
  EXPECT_EQ(message.run_name, "vit");
  EXPECT_EQ(message.command, (std::vector<std::string>{"./train", "--fast"}));
  EXPECT_EQ(message.working_dir, "/home/alice");
  EXPECT_EQ(message.env, (std::map<std::string, std::string>{{"PATH", "/bin"}}));
  EXPECT_EQ(message.job_env, std::vector<std::string>{"OMP_NUM_THREADS"});
  EXPECT_EQ(message.cpus_per_worker, 2.5);
  EXPECT_EQ(message.world_size, 4);
  EXPECT_EQ(message.node_count, 2);
  EXPECT_EQ(message.master_addr, "10.0.0.7");
  EXPECT_EQ(message.master_port, 4711u);
  EXPECT_EQ(message.restart_count, 2);
  EXPECT_EQ(message.max_restarts, 3);
  EXPECT_EQ(message.config_json, R"({"lr":1})");
  EXPECT_EQ(message.metadata_json, R"({"team":"a"})");
  EXPECT_EQ(message.datasets_json, "{}");
  EXPECT_EQ(message.collectives, "gloo");
  EXPECT_EQ(message.collective_timeout_ms, 11000);
  EXPECT_EQ(message.restore_dir, "/runs/vit/checkpoints/checkpoint_000009");
  EXPECT_EQ(message.restored_epoch, 6);
  EXPECT_EQ(message.standby, 0);

  action.restore.reset();
  const StartWorkers fresh = start_message(spec_, *record_, action, {});
  EXPECT_EQ(fresh.restore_dir, "");
  EXPECT_EQ(fresh.restored_epoch, -1);
}

TEST_F(StartFramesTest, EachNodeHearsOfItsOwnRanks) {
  Start action{.attempt = Attempt{5}, .placed = placement().nodes.at(1)};
  action.placement = SharedValue<Placement>(placement());
  StartWorkers message;
  for (int round = 0; round < 2; ++round) {  // the message is used for one after another
    set_node(message, action);
    EXPECT_EQ(message.node_rank, 1);
    ASSERT_EQ(message.workers.size(), 2u);
    EXPECT_EQ(message.workers[0].rank, 2);
    EXPECT_EQ(message.workers[0].local_rank, 0);
    EXPECT_EQ(message.workers[1].rank, 3);
    EXPECT_EQ(message.workers[1].local_rank, 1);
  }
}

TEST_F(StartFramesTest, ProcessesThatStandByHaveTheProgramAndNoRanks) {
  const StartWorkers message = standby_message(spec_, *record_, 3, {{"PATH", "/bin"}});
  EXPECT_EQ(message.standby, 3);
  EXPECT_EQ(message.command, (std::vector<std::string>{"./train", "--fast"}));
  EXPECT_TRUE(message.workers.empty());
}

TEST_F(StartFramesTest, ALinkSaysWhoTheLauncherIsAndHowLongItWaits) {
  FailureConfig& failure = spec_.run_config.failure_config;
  failure.node_suspect_after = milliseconds(900);
  failure.node_dead_after = milliseconds(2500);
  failure.orphan_timeout = milliseconds(8000);
  spec_.run_config.user = "alice";

  DaemonLinkOptions link = link_options(spec_.run_config, *record_, "test");

  EXPECT_EQ(link.attach.run_id, record_->run_id());
  EXPECT_EQ(link.attach.run_name, "vit");
  EXPECT_EQ(link.attach.generation, 1u);
  EXPECT_EQ(link.attach.user, "alice");
  EXPECT_EQ(link.attach.heartbeat_ms, 300);
  EXPECT_EQ(link.attach.dead_after_ms, 2500);
  EXPECT_EQ(link.attach.orphan_timeout_ms, 8000);
  EXPECT_EQ(link.owner_key, record_->owner_key());
  EXPECT_EQ(link.limits.suspect_after, milliseconds(900));
  EXPECT_EQ(link.limits.dead_after, milliseconds(2500));
  EXPECT_EQ(link.limits.away_limit, milliseconds(8000));
  EXPECT_FALSE(link.has_workers);

  failure.node_suspect_after = seconds(30);
  EXPECT_EQ(link_options(spec_.run_config, *record_, "test").attach.heartbeat_ms, 1000);
}

TEST(StartSize, WhatDoesNotFitAFrameIsNamed) {
  JobSpec spec;
  spec.command = {"./train"};
  EXPECT_TRUE(check_start_size(spec, {{"A", std::string(3'100'000, 'a')}}));

  const auto large = check_start_size(spec, {{"A", std::string(3'200'000, 'a')}});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Errc::InvalidSpec);
  // 7 + 4 of the command, 1 + 8 of the variable, and three times {}.
  EXPECT_EQ(large.error().message,
            "what workers are started with takes 3200026 bytes, 3200009 of them the environment; "
            "all of it (train_loop_config, metadata, datasets, the environment, command) may take "
            "3145728");

  spec.metadata = {{"a", std::string(2'000'000, 'm')}};
  spec.train_loop_config = {{"a", std::string(1'500'000, 'c')}};
  const auto sum = check_start_size(spec, {});
  ASSERT_FALSE(sum);
  EXPECT_NE(sum.error().message.find("of them metadata"), std::string::npos) << sum.error().message;
}

TEST(CommitRequestOf, ACommitHasThePartsAndTheMetadataOfRankZero) {
  StagedShard first, second;
  first.rank = Rank{1};
  first.dir = ".rank-0001";
  first.metadata_json = R"({"of": 1})";
  second.rank = Rank{0};
  second.dir = "data-4-5.2/rank-0000";
  second.files = {{"state", 5, {6, 7}}};
  second.metadata_json = R"({"of": 0})";
  second.nodes = {"n1", "n2"};

  const CommitRequest request = commit_request(
      {.attempt = Attempt{5}, .checkpoint_seq = 2, .number = 9, .shards = {first, second}},
      Generation{4}, "2026-11-21T09:38:00.123456Z", {{"loss", 0.5}});

  EXPECT_EQ(request.pending, (PendingCheckpoint{Generation{4}, Attempt{5}, CheckpointSeq{2}}));
  EXPECT_EQ(request.number, CheckpointNumber{9});
  EXPECT_EQ(request.world_size, 2);
  EXPECT_EQ(request.created, "2026-11-21T09:38:00.123456Z");
  EXPECT_EQ(request.metrics, (Metrics{{"loss", 0.5}}));
  EXPECT_EQ(request.metadata, (boost::json::object{{"of", 0}}));
  ASSERT_EQ(request.shards.size(), 2u);
  EXPECT_EQ(request.shards[1].rank, Rank{0});
  EXPECT_EQ(request.shards[1].dir, "data-4-5.2/rank-0000");
  EXPECT_EQ(request.shards[1].nodes, (std::vector<std::string>{"n1", "n2"}));
  ASSERT_EQ(request.shards[1].files.size(), 1u);
  EXPECT_EQ(request.shards[1].files, second.files);
  EXPECT_TRUE(request.shards[0].files.empty());
}

TEST(CommitRequestOf, MetadataThatIsNoObjectIsLeftOut) {
  for (const char* text : {"[1]", "{", "7", ""}) {
    StagedShard part;
    part.metadata_json = text;
    EXPECT_TRUE(commit_request({.shards = {part}}, Generation{1}, "", {}).metadata.empty()) << text;
  }
}

}  // namespace
}  // namespace train
