// Runs in a Slurm job, without Slurm: programs/fake_slurm.sh plays its commands, and the "nodes"
// are daemons on this machine. tests/reach/slurm_test.sh does the same with the real ones.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <map>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr const char* kTwoApart =
    "\nscaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD, resources_per_worker: "
    "{CPU: 0}}";

class Slurm : public ::testing::Test {
 protected:
  Slurm() {
    ::mkdir(cluster_.path("bin").c_str(), 0700);
    const std::string fake = std::string(TRAIN_SOURCE_DIR) + "/tests/e2e/programs/fake_slurm.sh";
    for (const char* name : {"srun", "squeue", "scontrol"})
      EXPECT_EQ(::symlink(fake.c_str(), cluster_.path(std::string("bin/") + name).c_str()), 0);
    time_left_is("UNLIMITED");
  }

  /// The variables of the batch script of a job of two nodes.
  StartOptions in_job(const std::map<std::string, std::string>& more = {}) const {
    std::map<std::string, std::string> env{{"PATH", cluster_.path("bin") + ":/usr/bin:/bin"},
                                           {"FAKE_SLURM_DIR", cluster_.dir()},
                                           {"SLURM_JOB_ID", "7"},
                                           {"SLURM_JOB_NODELIST", "n[1-2]"},
                                           {"SLURM_JOB_NUM_NODES", "2"},
                                           {"SLURM_JOB_CPUS_PER_NODE", "2(x2)"},
                                           {"SLURM_NTASKS", "2"},
                                           {"SLURM_PROCID", "0"},
                                           {"SLURMD_NODENAME", "n1"}};
    for (const auto& [name, value] : more) env[name] = value;
    return {.env = std::move(env)};
  }
  void time_left_is(const std::string& text) const { cluster_.write("time-left", text + "\n"); }
  std::string calls(const std::string& command) const {
    return cluster_.read(cluster_.path(command + ".calls"));
  }
  std::string job(const std::string& words, const std::string& more = "") const {
    return cluster_.job("job", "command: [" + words + "]" + kTwoApart + more);
  }
  /// A job of two ranks that report without an end, and make a checkpoint when they are stopped.
  std::string training(const std::string& more = "") const {
    return cluster_.job(
        "job", "command: [" + program("sdk_worker") +
                   "]\ntrain_loop_config: {mode: epochs, epochs: 1000000, checkpoint_every: 0, "
                   "ahead: 10, on_stop: true}" +
                   kTwoApart + more);
  }
  Process& start_training(const StartOptions& options, const std::string& more = "") {
    Process& run = cluster_.train_run({training(more)}, options);
    EXPECT_TRUE(has_reported(10)) << run.err();
    return run;
  }
  /// Wait until each of both ranks has reported so often.
  bool has_reported(int times) const {
    return wait_until([&] {
      std::map<std::string, int> reports;
      for (const auto& line : cluster_.metrics("job")) ++reports[text_of(line, "rank")];
      return reports.size() == 2 && reports["0"] >= times && reports["1"] >= times;
    });
  }
  void expect_stopped_in_good_order(Process& run) {
    EXPECT_EQ(run.wait(), 75) << run.err();
    EXPECT_EQ(cluster_.checkpoints("job").size(), 1u);
    EXPECT_EQ(text_of(cluster_.exit_json("job"), "outcome"), "preempted");
    EXPECT_TRUE(nothing_left(cluster_));
  }
  std::string refusal(const StartOptions& options, int code = 69) {
    Process& run = cluster_.train_run({job("/bin/true")}, options);
    EXPECT_EQ(run.wait(), code);
    EXPECT_TRUE(nothing_left(cluster_));
    return run.err();
  }

  Cluster cluster_;
};

TEST_F(Slurm, StartsADaemonOnEachNodeBySrunAndEndsThem) {
  Process& run = cluster_.train_run({job("sh, -c, 'echo I am $TRAINRUN_NODE_RANK'")}, in_job());

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "[n1 0] I am 0")) << run.out();
  EXPECT_TRUE(contains(run.out(), "[n2 1] I am 1"));
  EXPECT_TRUE(contains(calls("srun"), "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=2"))
      << calls("srun");
  EXPECT_TRUE(contains(cluster_.read(cluster_.run_dir("job") + "/traind.log"), "node=n2"));
  EXPECT_TRUE(nothing_left(cluster_));
}

TEST_F(Slurm, GivesSrunNoSecretsAndNoShapeOfAnotherStep) {
  ASSERT_EQ(cluster_.run({job("/bin/true")},
                         in_job({{"HF_TOKEN", "hf_0123456789"}, {"SLURM_NTASKS_PER_NODE", "4"}})),
            0);
  const std::string variables = "\n" + cluster_.read(cluster_.path("srun.variables"));
  EXPECT_TRUE(contains(variables, "\nSLURM_JOB_ID\n"));
  for (const char* name : {"HF_TOKEN", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS", "SLURM_PROCID"})
    EXPECT_FALSE(contains(variables, std::string("\n") + name + "\n")) << name;
}

TEST_F(Slurm, WorkersKnowTheJobButAreNoTasksOfIt) {
  ASSERT_EQ(cluster_.run({job("sh, -c, 'env > env.$RANK'")}, in_job({{"HF_TOKEN", "hf_0123"}})), 0);
  for (const char* rank : {"env.0", "env.1"}) {
    const std::string env = "\n" + cluster_.read(cluster_.path(rank));
    EXPECT_TRUE(contains(env, "\nSLURM_JOB_ID=7\n")) << env;
    EXPECT_TRUE(contains(env, "\nHF_TOKEN=hf_0123\n")) << env;
    for (const char* name : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "PMI_RANK",
                             "SLURMD_NODENAME", "SLURM_LAUNCH_NODE_IPADDR"})
      EXPECT_FALSE(contains(env, std::string("\n") + name + "=")) << name;
  }
}

TEST_F(Slurm, GivesWorkersTheGpusThatSlurmGranted) {
  cluster_.write("nvml", "gpus 2\n");
  const std::string path = cluster_.job(
      "job",
      "command: [sh, -c, 'echo \"node $TRAINRUN_NODE_RANK has $CUDA_VISIBLE_DEVICES\"']\n"
      "scaling_config: {num_workers: 2, use_gpu: true, resources_per_worker: {CPU: 0}}");

  Process& run = cluster_.train_run(
      {path}, in_job({{"LD_LIBRARY_PATH", std::string(TRAIN_BINARY_DIR) + "/tests/fake_nvml"},
                      {"TRAINRUN_FAKE_NVML", cluster_.path("nvml")},
                      {"FAKE_SLURM_NVML", cluster_.path("nvml")}}));

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "node 0 has 1")) << run.out();
  EXPECT_TRUE(contains(run.out(), "node 1 has 0")) << run.out();
}

TEST_F(Slurm, RunsOnThisNodeAloneIfTheUserSaysSo) {
  const std::string path = cluster_.job(
      "job",
      "command: [echo, alone]\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}");
  ASSERT_EQ(cluster_.run({path, "--no-slurm"}, in_job()), 0);
  EXPECT_EQ(calls("srun"), "");
}

TEST_F(Slurm, ADryRunShowsTheJobsNodes) {
  Process& run = cluster_.train_run({job("/bin/true"), "--dry-run"},
                                    in_job({{"SLURM_JOB_NODELIST", "gpu[08-09]"}}));
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "gpu08: ranks 0 to 0\n  gpu09: ranks 1 to 1")) << run.out();
  EXPECT_EQ(calls("srun"), "");
}

TEST_F(Slurm, TorchrunsCommandLineTakesTheJobsNodesIfItAsksForSeveral) {
  const std::vector<std::string> words{"torchrun", "--storage", cluster_.storage(),
                                       "--nproc-per-node", "1"},
      program{"--no-python", "sh", "-c", "echo $NODE_RANK of $NNODES"};
  std::vector<std::string> on_both = words, on_one = words;
  on_both.insert(on_both.end(), {"--nnodes", "2"});
  on_both.insert(on_both.end(), program.begin(), program.end());
  on_one.insert(on_one.end(), program.begin(), program.end());

  Process& one = cluster_.train_run(on_one, in_job());
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_TRUE(contains(one.out(), "0 of 1")) << one.out();
  EXPECT_EQ(calls("srun"), "");
  Process& both = cluster_.train_run(on_both, in_job());
  EXPECT_EQ(both.wait(), 0) << both.err();
  EXPECT_TRUE(contains(both.out(), "0 of 2") && contains(both.out(), "1 of 2")) << both.out();
}

TEST_F(Slurm, NeedsNoSrunInAJobOfThisNodeOnly) {
  const std::string path = cluster_.job("job", "command: [/bin/echo, alone]");
  Process& run = cluster_.train_run(
      {path},
      in_job({{"PATH", "/nowhere"}, {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_JOB_NUM_NODES", "1"}}));
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "alone"));
}

// ---- what goes wrong with srun

TEST_F(Slurm, SaysThatThereIsNoSrun) {
  const std::string said = refusal(in_job({{"PATH", "/nowhere"}}));
  EXPECT_TRUE(contains(said, "this is job 7 of Slurm, but srun cannot be started")) << said;
  EXPECT_TRUE(contains(said, "--no-slurm")) << said;
}

TEST_F(Slurm, SaysWhySlurmRefusesTheStep) {
  const std::string said = refusal(in_job({{"FAKE_SLURM", "refused"}}));
  EXPECT_TRUE(contains(said,
                       "the daemons of 2 of 2 nodes of Slurm's job 7 did not come up (n1, n2): "
                       "srun: error: Unable to create step for job 7: Invalid account"))
      << said;
}

TEST_F(Slurm, SaysThatTraindIsNotOnANode) {
  const std::string said = refusal(in_job({{"FAKE_SLURM", "no-traind"}}));
  EXPECT_TRUE(contains(said, "execve()")) << said;
  EXPECT_TRUE(contains(said, "traind must be at the same path on all nodes")) << said;
}

TEST_F(Slurm, SaysThatTraindIsOfAnotherVersion) {
  const std::string said = refusal(in_job({{"FAKE_SLURM", "old-traind"}}));
  EXPECT_TRUE(contains(said, "was not expected: --announce")) << said;
  EXPECT_TRUE(contains(said, "is not of this version")) << said;
}

TEST_F(Slurm, RefusesVariablesThatMakeNoSense) {
  const std::string said = refusal(in_job({{"SLURM_JOB_NODELIST", "n[1-99999999999]"}}));
  EXPECT_TRUE(contains(said, "the variable SLURM_JOB_NODELIST")) << said;
}

TEST_F(Slurm, RefusesToStartTheRunOnceForEachTask) {
  const std::string said =
      refusal(in_job({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}}), 2);
  EXPECT_TRUE(contains(said, "this is task 1 of 2 of a Slurm step")) << said;
}

TEST_F(Slurm, RefusesARunInTheBackground) {
  Process& run = cluster_.train_run({job("/bin/true"), "--detach"}, in_job());
  EXPECT_EQ(run.wait(), 2);
  EXPECT_TRUE(contains(run.err(), "a detached run would end with this Slurm job")) << run.err();
}

TEST_F(Slurm, RefusesASpecThatRequiresItElsewhere) {
  const std::string path = job("/bin/true", "\ncluster: {slurm: required}");
  Process& run = cluster_.train_run({path});
  EXPECT_EQ(run.wait(), 69);
  EXPECT_TRUE(contains(run.err(), "this is no Slurm job")) << run.err();
}

TEST_F(Slurm, EndsTheRunOnceTheStepIsGone) {
  Process& run = start_training(in_job());
  for (const Seen& seen : cluster_.processes())
    if (contains(seen.command, "tee ") || contains(seen.command, "bin/srun"))
      send_signal(seen.pid, SIGKILL);

  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(run.err() + run.out(), "the Slurm step with this run's daemons has ended"))
      << run.err();
  EXPECT_TRUE(nothing_left(cluster_));
}

// ---- the launcher dies

TEST_F(Slurm, ALauncherThatDiesTakesTheDaemonsAlong) {
  Process& run = start_training(in_job());
  run.signal(SIGKILL);
  run.wait();
  EXPECT_TRUE(nothing_left(cluster_));
}

TEST_F(Slurm, AnotherLauncherOfTheJobGoesOnWithNewDaemons) {
  const std::string path = cluster_.job(
      "job", "command: [" + program("sdk_worker") +
                 "]\ntrain_loop_config: {mode: epochs, epochs: 1000000, checkpoint_every: 1, "
                 "ahead: 1, epochs_after_restore: 2}" +
                 kTwoApart);
  Process& run = cluster_.train_run({path}, in_job());
  ASSERT_TRUE(wait_until([&] { return cluster_.checkpoints("job").size() >= 2; })) << run.err();
  run.signal(SIGKILL);
  run.wait();

  Process& next = cluster_.train_run({"resume", cluster_.run_dir("job")}, in_job());

  EXPECT_EQ(next.wait(), 0) << next.err();
  EXPECT_TRUE(contains(next.out(), "restored epoch")) << next.out();
  EXPECT_TRUE(nothing_left(cluster_));
}

// ---- signals, and the end of the job

class SlurmSignal : public Slurm, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(, SlurmSignal, ::testing::Values(SIGTERM, SIGUSR1), [](const auto& info) {
  return info.param == SIGTERM ? "SIGTERM" : "SIGUSR1";
});

// scancel --signal
TEST_P(SlurmSignal, ForTheWholeStepStopsTheRunInGoodOrder) {
  Process& run = start_training(in_job());
  for (const Seen& seen : cluster_.processes())
    if (seen.pid != run.pid()) send_signal(seen.pid, GetParam());
  expect_stopped_in_good_order(run);
}

// scancel, and the time limit: all get it, workers first.
TEST_P(SlurmSignal, ForScriptAndStepIsOneRequest) {
  Process& run = start_training(in_job());
  for (int twice = 0; twice < 2; ++twice) {
    for (const Seen& seen : cluster_.processes())
      if (seen.pid != run.pid()) send_signal(seen.pid, GetParam());
    run.signal(GetParam());
  }
  expect_stopped_in_good_order(run);
}

TEST_F(Slurm, StopsBeforeTheJobsEndAsSlurmsVariableHasIt) {
  time_left_is("0:02");
  Process& run =
      start_training(in_job({{"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 8)}}));
  expect_stopped_in_good_order(run);
  EXPECT_TRUE(contains(run.out(), "the time limit of Slurm's job 7")) << run.out();
}

TEST_F(Slurm, AsksSqueueForTheEndWhereNoVariableHasIt) {
  time_left_is("0:06");
  Process& run = cluster_.train_run({training()}, in_job());
  expect_stopped_in_good_order(run);
  EXPECT_TRUE(contains(calls("squeue"), "-h -j 7 -o %L")) << calls("squeue");
}

TEST_F(Slurm, GoesOnIfSomebodyHasRaisedTheLimit) {
  time_left_is("1-00:00:00");
  Process& run =
      start_training(in_job({{"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 3)}}));
  ASSERT_TRUE(wait_until([&] { return !calls("squeue").empty(); }));
  const int reports = static_cast<int>(cluster_.metrics("job").size());
  EXPECT_TRUE(has_reported(reports + 20));
  EXPECT_TRUE(run.running());
}

TEST_F(Slurm, LeavesTheEndToSlurmsSignalsIfTheSpecSaysSo) {
  Process& run =
      start_training(in_job({{"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) - 60)}}),
                     "\ncluster: {stop_before_end: 0s}");
  EXPECT_TRUE(run.running());
  EXPECT_EQ(calls("squeue"), "");
}

TEST_F(Slurm, SaysThatItDoesNotKnowTheEnd) {
  ::unlink(cluster_.path("time-left").c_str());
  Process& run = start_training(in_job());
  EXPECT_TRUE(wait_until([&] {
    return contains(run.out() + run.err(),
                    "only Slurm's signals stop this run before its job ends");
  })) << run.err();
}

TEST_F(Slurm, IsRequeuedLastOfAll) {
  Process& run = cluster_.train_run({training(), "--requeue"}, in_job());
  ASSERT_TRUE(has_reported(10)) << run.err();
  run.signal(SIGUSR1);
  expect_stopped_in_good_order(run);
  EXPECT_EQ(calls("scontrol"), "requeue 7\n");
}

TEST_F(Slurm, IsNotRequeuedAfterItsOwnEnd) {
  ASSERT_EQ(cluster_.run({job("/bin/true"), "--requeue"}, in_job()), 0);
  EXPECT_EQ(calls("scontrol"), "");
}

}  // namespace
}  // namespace train::e2e
