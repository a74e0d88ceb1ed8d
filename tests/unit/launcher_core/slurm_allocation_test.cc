#include "launcher/core/slurm_allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

using Names = std::vector<std::string>;

Names nodes(std::string_view text) {
  const auto parsed = parse_node_list(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Names{};
}

/// What a batch script of two nodes has, among other things (22.05).
EnvironmentMap batch_script() {
  return {{"SLURM_JOB_ID", "7"},        {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_CPUS_PER_NODE", "4,3"},
          {"SLURM_NTASKS", "2"},        {"SLURM_PROCID", "0"},
          {"SLURM_GPUS_ON_NODE", "2"},  {"SLURMD_NODENAME", "n1"},
          {"PATH", "/usr/bin"}};
}

SlurmAllocation read(const EnvironmentMap& environment) {
  const auto allocation = read_slurm_allocation(environment);
  if (!allocation || !*allocation) {
    ADD_FAILURE() << (allocation ? "no allocation" : allocation.error().describe());
    return {};
  }
  return **allocation;
}

std::string refusal(const EnvironmentMap& environment) {
  const auto allocation = read_slurm_allocation(environment);
  return allocation ? "" : allocation.error().describe();
}

// As `scontrol show hostnames` says.
TEST(SlurmNodeList, IsExpandedAsSlurmDoes) {
  EXPECT_EQ(nodes("n1"), Names{"n1"});
  EXPECT_EQ(nodes("n[1-3,07-09],x5"), (Names{"n1", "n2", "n3", "n07", "n08", "n09", "x5"}));
  EXPECT_EQ(nodes("gpu[098-101]"), (Names{"gpu098", "gpu099", "gpu100", "gpu101"}));
  EXPECT_EQ(nodes("r[1-2]n[3,5]-ib"), (Names{"r1n3-ib", "r1n5-ib", "r2n3-ib", "r2n5-ib"}));
  EXPECT_EQ(nodes("a[1],b-c.d_e"), (Names{"a1", "b-c.d_e"}));
  EXPECT_EQ(nodes("n[9223372036854775806-9223372036854775807]"),
            (Names{"n9223372036854775806", "n9223372036854775807"}));
}

TEST(SlurmNodeList, IsRefusedIfItMakesNoSense) {
  for (const char* text : {"",
                           ",",
                           "n1,",
                           "n[",
                           "n]",
                           "n[]",
                           "n[1",
                           "n1]",
                           "n[1-]",
                           "n[-1]",
                           "n[3-1]",
                           "n[1--2]",
                           "n[1,]",
                           "n[a-b]",
                           "n[[1]]",
                           "n[1-2]]",
                           "n 1",
                           "n1\n",
                           "n;rm",
                           "n[1 -2]",
                           "$(x)",
                           "n[9223372036854775808]",
                           "n[1-99999999999999999999]",
                           "n[00000000000000000001]"})
    EXPECT_FALSE(parse_node_list(text)) << text;
}

TEST(SlurmNodeList, IsBounded) {
  EXPECT_EQ(nodes("n[1-16384]").size(), kSlurmNodesMax);
  for (const char* text :
       {"n[1-16385]", "n[0-9223372036854775807]", "n[1-16384],x", "n[1-16000,1-16000]",
        "a[1-200]b[1-200]", "a[1-9]b[1-9]c[1-9]d[1-9]e[1-9]f[1-9]g[1-9]"})
    EXPECT_FALSE(parse_node_list(text)) << text;
  EXPECT_FALSE(parse_node_list(std::string(254, 'n')));
  const auto huge = parse_node_list(std::string(2 << 20, 'n'));
  ASSERT_FALSE(huge);
  EXPECT_LT(huge.error().message.size(), 200u);
}

TEST(SlurmCounts, AreReadToTheLeast) {
  EXPECT_EQ(*fewest_in("4"), 4);
  EXPECT_EQ(*fewest_in("8(x2),3,5(x10)"), 3);
  for (const char* text :
       {"", "0", "x", "4(", "4(x2", "4,", ",4", "-4", "4 ", "65537", "99999999999999999999"})
    EXPECT_FALSE(fewest_in(text)) << text;
}

TEST(SlurmAllocation, IsReadFromABatchScriptsVariables) {
  const SlurmAllocation allocation = read(batch_script());
  EXPECT_EQ(allocation.job_id, "7");
  EXPECT_EQ(allocation.nodes, (Names{"n1", "n2"}));
  EXPECT_EQ(allocation.cpus, 3);
  EXPECT_EQ(allocation.gpus_per_node, 0);
  EXPECT_TRUE(allocation.on_node);
  EXPECT_FALSE(allocation.end);
  EXPECT_FALSE(allocation.step_task);
}

TEST(SlurmAllocation, IsNoneOutsideAJob) {
  for (const EnvironmentMap& environment :
       {EnvironmentMap{}, EnvironmentMap{{"SLURM_JOB_ID", "7"}},
        EnvironmentMap{{"SLURM_JOB_NODELIST", "n1"}}, EnvironmentMap{{"SLURM_JOB_ID", ""}}}) {
    const auto allocation = read_slurm_allocation(environment);
    ASSERT_TRUE(allocation);
    EXPECT_FALSE(*allocation);
  }
}

TEST(SlurmAllocation, NamesTheVariableThatMakesNoSense) {
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_CPUS_PER_NODE"}) {
    EnvironmentMap environment = batch_script();
    environment[name] = "7 --exclusive [";
    EXPECT_THAT(refusal(environment), HasSubstr(std::string("the variable ") + name));
  }
}

TEST(SlurmAllocation, TellsTasksOfAStepApartFromABatchScript) {
  EnvironmentMap environment = batch_script();
  environment["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_FALSE(read(environment).step_task);
  environment["SLURM_STEP_NUM_TASKS"] = "2";
  environment["SLURM_PROCID"] = "1";
  EXPECT_EQ(read(environment).step_task, "1 of 2");
}

TEST(SlurmAllocation, KnowsTheEndIfSlurmSaysIt) {
  EnvironmentMap environment = batch_script();
  environment["SLURM_JOB_END_TIME"] = "1795816211";
  EXPECT_EQ(read(environment).end, 1795816211);
  environment["SLURM_JOB_END_TIME"] = "tomorrow";
  EXPECT_FALSE(read(environment).end);
}

TEST(SlurmStep, HasOneDaemonOnEachNodeWithAllThatTheJobHasThere) {
  EXPECT_THAT(srun_arguments(read(batch_script()), "/opt/bin/traind"),
              ElementsAre("--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=3",
                          "--overlap", "--kill-on-bad-exit=0", "--no-kill", "--job-name=trainrun",
                          "/opt/bin/traind", "--token-stdin", "--announce", "--leave-with-stdin",
                          "--allow-root"));
}

TEST(SlurmStep, AsksForTheGpusOfAllTasksOfANode) {
  EnvironmentMap environment = batch_script();
  environment["SLURM_GPUS_PER_TASK"] = "1";
  EXPECT_THAT(srun_arguments(read(environment), "traind"), Contains("--gpus-per-node=2"));
  environment.erase("SLURM_GPUS_PER_TASK");
  environment["SLURM_TRES_PER_TASK"] = "gres/gpu:1";  // since 23.11
  EXPECT_THAT(srun_arguments(read(environment), "traind"), Contains("--gpus-per-node=2"));
}

TEST(SlurmStep, ComputesTheGpusOfANodeWhereSallocWasCalled) {
  EnvironmentMap environment = batch_script();
  environment.erase("SLURM_GPUS_ON_NODE");
  environment["SLURM_TASKS_PER_NODE"] = "4(x2)";
  for (const char* of_task : {"2", "a100:2"}) {
    environment["SLURM_GPUS_PER_TASK"] = of_task;
    EXPECT_THAT(srun_arguments(read(environment), "traind"), Contains("--gpus-per-node=8"));
  }
  environment.erase("SLURM_GPUS_PER_TASK");
  environment["SLURM_TRES_PER_TASK"] = "gres/gpu:1";
  EXPECT_EQ(read(environment).gpus_per_node, 4);
  environment["SLURM_TRES_PER_TASK"] = "gres/gpu:9999999999999999999";
  EXPECT_EQ(read(environment).gpus_per_node, 0);
  environment["SLURM_TRES_PER_TASK"] = "gres/gpu:1000";
  EXPECT_EQ(read(environment).gpus_per_node, 1024);
}

TEST(SlurmStep, IsNotShapedByTheScriptsOwnVariables) {
  EnvironmentMap environment = batch_script();
  for (const char* name :
       {"SLURM_NTASKS_PER_NODE", "SLURM_CPU_BIND", "SLURM_DISTRIBUTION", "SLURM_EXPORT_ENV",
        "SLURM_GPUS_PER_TASK", "TRAINRUN_TOKEN_FILE", "TRAINRUN_LISTEN", "HF_TOKEN", "PMI_RANK"})
    environment[name] = "x";
  environment["SLURM_CONF"] = "/etc/slurm/slurm.conf";
  environment["SLURM_WORKING_CLUSTER"] = "t:ctl:6817:9728:109";
  EXPECT_THAT(
      srun_environment(environment),
      UnorderedElementsAre(Pair("PATH", "/usr/bin"), Pair("SLURM_JOB_ID", "7"),
                           Pair("SLURM_JOB_NODELIST", "n[1-2]"), Pair("SLURM_JOB_NUM_NODES", "2"),
                           Pair("SLURM_JOB_CPUS_PER_NODE", "4,3"),
                           Pair("SLURM_CONF", "/etc/slurm/slurm.conf"),
                           Pair("SLURM_WORKING_CLUSTER", "t:ctl:6817:9728:109")));
}

// Lightning takes SLURM_NTASKS for a sign, and SLURM_PROCID for the rank; MPI libraries look for
// PMI.
TEST(SlurmTask, IsToldByVariablesThatWorkersDoNotGet) {
  for (const char* name :
       {"SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS",
        "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_STEP_ID",
        "SLURM_STEPID", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", "SLURMD_NODENAME",
        "PMI_RANK", "PMIX_NAMESPACE", "PMI2_RANK"})
    EXPECT_TRUE(is_of_slurm_task(name)) << name;
  for (const char* name :
       {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "SLURM_ARRAY_TASK_ID",
        "SLURM_RESTART_COUNT", "SLURM_CPUS_PER_TASK", "SLURM_TMPDIR", "SLURM_NNODES",
        "SLURM_SUBMIT_DIR", "SLURM_CLUSTER_NAME", "PATH", "MY_SLURM_PROCID", "PMIX"})
    EXPECT_FALSE(is_of_slurm_task(name)) << name;
}

TEST(SlurmAnnouncement, IsOneLineAndNothingElseCounts) {
  const auto come = parse_announcement("traind-announce 1 n1 10.77.0.11:41234");
  ASSERT_TRUE(come);
  EXPECT_EQ(come->name, "n1");
  EXPECT_EQ(come->endpoint, "10.77.0.11:41234");
  EXPECT_EQ(parse_announcement("traind-announce 1 n1 [fd00::1]:7070")->endpoint, "[fd00::1]:7070");
  for (const char* line :
       {"", "Welcome to the cluster", "traind-announce 2 n1 10.0.0.1:1", "traind-announce 1 n1",
        "traind-announce 1  10.0.0.1:1", "traind-announce 1 n1 10.0.0.1",
        "traind-announce 1 n1 :70", "traind-announce 1 n1 10.0.0.1:0",
        "traind-announce 1 n1 10.0.0.1:65536", "traind-announce 1 n1 10.0.0.1:7x",
        "traind-announce 1 n1 10.0.0.1:70 more", " traind-announce 1 n1 10.0.0.1:70"})
    EXPECT_FALSE(parse_announcement(line)) << line;
  EXPECT_FALSE(parse_announcement("traind-announce 1 " + std::string(300, 'n') + " a:1"));
  EXPECT_FALSE(parse_announcement("traind-announce 1 n " + std::string(300, 'a') + ":1"));
}

TEST(SlurmTimeLeft, IsReadAsSqueuePrintsIt) {
  EXPECT_EQ(seconds_left_in("4:59\n"), 299);
  EXPECT_EQ(seconds_left_in("0:07"), 7);
  EXPECT_EQ(seconds_left_in("23:59:59"), 86'399);
  EXPECT_EQ(seconds_left_in("2-01:00:03\n"), 176'403);
  for (const char* text : {"", "UNLIMITED", "INVALID", "NOT_SET", "12", "1-", "1-10", "1-10:00",
                           "1:2:3:4", "-1:00", "a:10", "1-99999999999999999999:00:00", "10:0x"})
    EXPECT_FALSE(seconds_left_in(text)) << text;
}

}  // namespace
}  // namespace train
