#include "daemon/supervisor/workers/worker_environment.h"

#include <gtest/gtest.h>

namespace train {
namespace {

StartWorkers two_of_four() {
  StartWorkers start;
  start.run.run_id = "vit-1";
  start.run.run_name = "vit";
  for (const std::int32_t local : {0, 1})
    start.workers.push_back({.world_size = 4,
                             .rank = 2 + local,
                             .local_rank = local,
                             .local_world_size = 2,
                             .node_rank = 1,
                             .node_count = 2});
  start.run.master_addr = "10.0.0.1";
  start.run.master_port = 4711;
  start.env = {{"PATH", "/bin"}, {"RANK", "77"}};
  start.restart_count = 1;
  start.max_restarts = 3;
  start.cpus_per_worker = 4.5;
  return start;
}

TEST(WorkerEnvironment, IsTorchrunsInFullAndOurs) {
  const StartWorkers start = two_of_four();
  const auto env = worker_environment({start, Attempt{1}, "/run/x.sock", {"2", "5"}},
                                      {start.workers[1], "/ckpt", "/err.json", ""});
  const std::map<std::string, std::string> expected{{"PATH", "/bin"},
                                                    {"RANK", "3"},
                                                    {"WORLD_SIZE", "4"},
                                                    {"LOCAL_RANK", "1"},
                                                    {"LOCAL_WORLD_SIZE", "2"},
                                                    {"GROUP_RANK", "1"},
                                                    {"GROUP_WORLD_SIZE", "2"},
                                                    {"ROLE_NAME", "default"},
                                                    {"ROLE_RANK", "3"},
                                                    {"ROLE_WORLD_SIZE", "4"},
                                                    {"NODE_RANK", "1"},
                                                    {"NNODES", "2"},
                                                    {"NPROC_PER_NODE", "2"},
                                                    {"MASTER_ADDR", "10.0.0.1"},
                                                    {"MASTER_PORT", "4711"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "1"},
                                                    {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                    {"TORCHELASTIC_RUN_ID", "vit-1"},
                                                    {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                    {"TORCHELASTIC_ERROR_FILE", "/err.json"},
                                                    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                    {"OMP_NUM_THREADS", "4"},
                                                    {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                                    {"CUDA_VISIBLE_DEVICES", "2,5"},
                                                    {"TRAINRUN_SOCKET", "/run/x.sock"},
                                                    {"TRAINRUN_RUN_ID", "vit-1"},
                                                    {"TRAINRUN_RUN_NAME", "vit"},
                                                    {"TRAINRUN_ATTEMPT", "1"},
                                                    {"TRAINRUN_NODE_RANK", "1"},
                                                    {"TRAINRUN_CHECKPOINT_DIR", "/ckpt"}};
  EXPECT_EQ(env, expected);
}

TEST(WorkerEnvironment, OfAnotherRoleIsItsOwn) {
  StartWorkers start = two_of_four();
  start.role = "trainer";
  start.job_env = {"KIND"};
  start.env["KIND"] = "of all";
  const RoleProgram reader{.name = "reader",
                           .command = {"./reader"},
                           .env = {{"KIND", "fast"}, {"OMP_NUM_THREADS", "9"}},
                           .cpus_per_worker = 2};
  WorkerRanks ranks{.world_size = 6,
                    .rank = 5,
                    .local_rank = 3,
                    .local_world_size = 4,
                    .node_rank = 1,
                    .node_count = 2,
                    .role = 1,
                    .role_world_size = 2,
                    .role_rank = 1,
                    .role_local_rank = 0,
                    .role_local_world_size = 1};
  NodeEnvironment node{start, Attempt{1}, "/run/x.sock", {"7"}, 1, &reader};
  auto env = worker_environment(node, {ranks, "/ckpt", "/err.json", ""});
  const auto of = [&env](const char* name) { return env[name]; };

  EXPECT_EQ(of("RANK"), "5");
  EXPECT_EQ(of("WORLD_SIZE"), "6");
  EXPECT_EQ(of("ROLE_NAME"), "reader");
  EXPECT_EQ(of("ROLE_RANK"), "1");
  EXPECT_EQ(of("ROLE_WORLD_SIZE"), "2");
  EXPECT_EQ(of("LOCAL_RANK"), "0");
  EXPECT_EQ(of("LOCAL_WORLD_SIZE"), "1");
  EXPECT_EQ(of("NPROC_PER_NODE"), "1");
  EXPECT_EQ(of("KIND"), "fast");
  EXPECT_EQ(of("OMP_NUM_THREADS"), "9");
  EXPECT_EQ(of("CUDA_VISIBLE_DEVICES"), "7");

  ranks = {.world_size = 6,
           .rank = 1,
           .local_rank = 1,
           .local_world_size = 4,
           .role_world_size = 4,
           .role_rank = 1,
           .role_local_rank = 1,
           .role_local_world_size = 2};
  node.role = nullptr;
  env = worker_environment(node, {ranks, "/ckpt", "/err.json", ""});
  EXPECT_EQ(of("ROLE_NAME"), "trainer");
  EXPECT_EQ(of("ROLE_WORLD_SIZE"), "4");
  EXPECT_EQ(of("KIND"), "of all");
}

TEST(WorkerEnvironment, LeavesTheJobsOwnThreadCountAlone) {
  StartWorkers start = two_of_four();
  start.env["OMP_NUM_THREADS"] = "7";
  EXPECT_EQ(worker_environment({start, Attempt{0}, "", {}}, {start.workers[0], "", "", ""})
                .at("OMP_NUM_THREADS"),
            "7");
}

TEST(WorkerEnvironment, TheOnlyWorkerOfANodeThatClaimsNoCoresMayUseAll) {
  StartWorkers start = two_of_four();
  start.cpus_per_worker = 0;
  const auto threads = [&] {
    const auto env =
        worker_environment({start, Attempt{0}, "", {}}, {start.workers[0], "", "", ""});
    return env.contains("OMP_NUM_THREADS") ? env.at("OMP_NUM_THREADS") : "(unset)";
  };
  EXPECT_EQ(threads(), "1");  // it shares the node

  start.workers[0].local_world_size = 1;
  EXPECT_EQ(threads(), "(unset)");

  start.env["OMP_NUM_THREADS"] = "7";
  EXPECT_EQ(threads(), "7");
}

TEST(WorkerEnvironment, TheJobMayNameTheRoleAndTheRun) {
  StartWorkers start = two_of_four();
  start.env["ROLE_NAME"] = start.env["TORCHELASTIC_RUN_ID"] = "mine";
  const auto of = [&](const char* name) {
    return worker_environment({start, Attempt{0}, "", {}}, {start.workers[0], "", "", ""}).at(name);
  };
  EXPECT_EQ(of("ROLE_NAME"), "default");  // the submitter is a worker of another launcher
  EXPECT_EQ(of("TORCHELASTIC_RUN_ID"), "vit-1");

  start.job_env = {"ROLE_NAME", "TORCHELASTIC_RUN_ID"};
  EXPECT_EQ(of("ROLE_NAME"), "mine");
  EXPECT_EQ(of("TORCHELASTIC_RUN_ID"), "mine");
}

TEST(WorkerEnvironment, GpusAreCountedInTheNodesOrderWhateverTheShellSays) {
  StartWorkers start = two_of_four();
  start.env["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST";
  EXPECT_EQ(worker_environment({start, Attempt{0}, "", {"1"}}, {start.workers[0], "", "", ""})
                .at("CUDA_DEVICE_ORDER"),
            "PCI_BUS_ID");
}

TEST(WorkerEnvironment, WorkersThatClaimNoGpuSeeNoneUnlessTheJobSaysSo) {
  StartWorkers start = two_of_four();
  start.env["CUDA_VISIBLE_DEVICES"] = "3";  // of the submitter's shell
  const auto visible = [&] {
    return worker_environment({start, Attempt{0}, "", {}}, {start.workers[0], "", "", ""})
        .at("CUDA_VISIBLE_DEVICES");
  };
  EXPECT_EQ(visible(), "");

  start.job_env = {"CUDA_VISIBLE_DEVICES"};
  EXPECT_EQ(visible(), "3");
}

TEST(WorkerEnvironment, OfOneThatStandsByHasWhatLibrariesReadWhenTheyAreLoaded) {
  StartWorkers start = two_of_four();
  start.env.erase("RANK");
  const std::map<std::string, std::string> expected{{"PATH", "/bin"},
                                                    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                    {"OMP_NUM_THREADS", "4"},
                                                    {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                                    {"CUDA_VISIBLE_DEVICES", "2,5"},
                                                    {"TRAINRUN_SOCKET", "/run/x.sock"},
                                                    {"TRAINRUN_RUN_ID", "vit-1"},
                                                    {"TRAINRUN_RUN_NAME", "vit"},
                                                    {"TRAINRUN_ATTEMPT", "1"},
                                                    {"TRAINRUN_STANDBY", "7"}};
  EXPECT_EQ(standby_environment({start, Attempt{1}, "/run/x.sock", {"2", "5"}}, 7), expected);
}

TEST(WorkerEnvironment, OfAStandbyProcessBringsOnlyWhatIsNewOrDifferent) {
  EXPECT_EQ(not_in({{"RANK", "3"}, {"PATH", "/bin"}, {"HOME", "/b"}},
                   {{"PATH", "/bin"}, {"HOME", "/a"}, {"OLD", "1"}}),
            (std::map<std::string, std::string>{{"RANK", "3"}, {"HOME", "/b"}}));
}

TEST(ValidationEnvironment, HasNoRankNoPeersNoSupervisorAndNoGpus) {
  StartWorkers start = two_of_four();
  for (const char* of_an_outer_launcher :
       {"TRAINRUN_SOCKET", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
        "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    start.env[of_an_outer_launcher] = "7";
  const NodeEnvironment node{start, Attempt{1}, "/run/x.sock", {"2", "5"}};
  const ValidationFiles files{"/runs/vit/checkpoints/checkpoint_000012", "/v/result", "/v/error",
                              "/v/spec"};

  const auto env = validation_environment(node, files, /*use_gpu=*/false);

  const std::map<std::string, std::string> expected{
      {"PATH", "/bin"},
      {"TORCHELASTIC_ERROR_FILE", "/v/error"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "4"},
      {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"TRAINRUN_RUN_ID", "vit-1"},
      {"TRAINRUN_RUN_NAME", "vit"},
      {"TRAINRUN_ATTEMPT", "1"},
      {"TRAINRUN_VALIDATE", "1"},
      {"TRAINRUN_CHECKPOINT_DIR", "/runs/vit/checkpoints/checkpoint_000012"},
      {"TRAINRUN_RESULT_FILE", "/v/result"},
      {"TRAINRUN_SPEC", "/v/spec"}};
  EXPECT_EQ(env, expected);
  EXPECT_EQ(validation_environment(node, files, true).at("CUDA_VISIBLE_DEVICES"), "2,5");
}

TEST(WorkerEnvironment, OfAnotherUserIsThatUsersWhereTheJobDoesNotSetIt) {
  StartWorkers start;
  start.env = {{"HOME", "/home/alice"}, {"USER", "alice"},         {"LOGNAME", "alice"},
               {"SHELL", "/bin/sh"},    {"XDG_RUNTIME_DIR", "/r"}, {"XDG_CACHE_HOME", "/fast"},
               {"PATH", "/bin"}};
  start.job_env = {"SHELL", "XDG_CACHE_HOME"};

  use_account(start, {{"HOME", "/home/trainer"},
                      {"USER", "trainer"},
                      {"LOGNAME", "trainer"},
                      {"SHELL", "/bin/bash"}});

  const std::map<std::string, std::string> expected{
      {"HOME", "/home/trainer"}, {"USER", "trainer"},         {"LOGNAME", "trainer"},
      {"SHELL", "/bin/sh"},      {"XDG_CACHE_HOME", "/fast"}, {"PATH", "/bin"}};
  EXPECT_EQ(start.env, expected);
}

TEST(WorkerEnvironment, OfAnIngestWorkerHasNoRankNoPeersAndNoGpus) {
  StartWorkers start = two_of_four();
  start.env["TRAINRUN_INGEST"] = "of an outer run";

  const auto env =
      ingest_environment({start, Attempt{1}, "/run/x.sock", {"2", "5"}}, "ingest-train-0002", 2);
  const auto worker = worker_environment({start, Attempt{1}, "/run/x.sock", {}},
                                         {start.workers[1], "/ckpt", "/err.json", ""});

  const std::map<std::string, std::string> expected{{"PATH", "/bin"},
                                                    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                    {"OMP_NUM_THREADS", "2"},
                                                    {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                                    {"CUDA_VISIBLE_DEVICES", ""},
                                                    {"TRAINRUN_SOCKET", "/run/x.sock"},
                                                    {"TRAINRUN_RUN_ID", "vit-1"},
                                                    {"TRAINRUN_RUN_NAME", "vit"},
                                                    {"TRAINRUN_ATTEMPT", "1"},
                                                    {"TRAINRUN_INGEST", "ingest-train-0002"}};
  EXPECT_EQ(env, expected);
  EXPECT_FALSE(worker.contains("TRAINRUN_INGEST"));
}

}  // namespace
}  // namespace train
