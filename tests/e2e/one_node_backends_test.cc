// Backends with the real clients: two workers train in step through a SIGKILL and a restart, to the
// same weights as without. The large clients' cases are an entry of their own (`make clients`).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "tests/e2e/cluster.h"
#include "tests/e2e/outer_group.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

class Backends : public testing::Test {
 protected:
  std::string job(const std::string& name, const std::string& python, const std::string& program,
                  const std::string& backend, const std::string& config,
                  const std::string& run_config = "") {
    return cluster.job(
        name,
        fmt::format("command: [{}, {}/tests/e2e/programs/{}]\nbackend: {}\n"
                    "env: {{PYTHONPATH: {}/sdk/python, TRAINRUN_LIBRARY: {}, "
                    "PYTHONDONTWRITEBYTECODE: '1', OMP_NUM_THREADS: '1', JAX_PLATFORMS: cpu, "
                    "TF_CPP_MIN_LOG_LEVEL: '2'}}\n"
                    "working_dir: {}\ntrain_loop_config: {{{}}}\n"
                    "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}",
                    python, TRAIN_SOURCE_DIR, program, backend, TRAIN_SOURCE_DIR, LIBTRAINRUN,
                    cluster.dir(), config),
        run_config);
  }
  /// Train without and with a kill of rank 1: all ranks of both have the same weights.
  void kill_and_restart(const std::string& python, const std::string& program,
                        const std::string& backend, const std::string& config) {
    for (const char* name : {"whole", "killed"}) {
      const bool killed = std::string(name) == "killed";
      Process& run = cluster.train_run(
          {job(name, python, program, backend, config + (killed ? ", die_at: 1" : ""),
               killed ? "  failure_config: {max_failures: 1}" : "")},
          {.env = outer_});
      ASSERT_EQ(run.wait(std::chrono::minutes(4)), 0) << run.out() << run.err();
    }
    const json::array whole = cluster.run_json("whole").at("results").as_array();
    const json::array killed = cluster.run_json("killed").at("results").as_array();
    EXPECT_EQ(cluster.run_json("whole").at("attempts").as_array().size(), 1u);
    EXPECT_EQ(cluster.run_json("killed").at("attempts").as_array().size(), 2u);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(killed.at(rank).at("weights"), whole.at(0).at("weights")) << "rank " << rank;
      EXPECT_EQ(whole.at(rank).at("weights"), whole.at(0).at("weights")) << "rank " << rank;
      EXPECT_EQ(killed.at(rank).at("first"), 2) << "rank " << rank;
    }
    EXPECT_TRUE(nothing_left(cluster));
  }

  Cluster cluster;
  /// What an outer mpirun, TensorFlow or Horovod job would tell: none of it reaches the workers.
  std::map<std::string, std::string> outer_{
      {"PMI_RANK", "7"},   {"PMI_SIZE", "9"},           {"PMI_FD", "99"},
      {"PMIX_RANK", "7"},  {"PMIX_NAMESPACE", "outer"}, {"OMPI_COMM_WORLD_SIZE", "9"},
      {"TF_CONFIG", "{}"}, {"HOROVOD_RANK", "7"},       {"JAX_COORDINATOR_ADDRESS", "outer:1"}};
};

class LargeClients : public Backends {
 protected:
  void SetUp() override {
    if (frameworks_python().empty()) GTEST_SKIP() << "TensorFlow and JAX are not installed";
  }
};

TEST_F(Backends, TellWorkersOfTheirPeersAndNothingOfAnOuterLauncher) {
  Process& run = cluster.train_run(
      {cluster.job("job",
                   "command: [/bin/sh, -c, 'env | grep -E "
                   "\"^(TF_CONFIG|TF_USE|PMI|OMPI|HOROVOD|JAX)\" | sort']\n"
                   "backend: tensorflow\nenv: {OMPI_MCA_btl: self}\n"
                   "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}")},
      {.env = outer_});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  for (const int rank : {0, 1}) {
    const std::string said = cluster.read(
        fmt::format("{}/attempts/000/ranks/{:04}/stdout.log", cluster.run_dir("job"), rank));
    std::string peers = said.substr(0, said.find(']'));
    EXPECT_EQ(peers.find("OMPI_MCA_btl=self\nTF_CONFIG={\"cluster\":{\"worker\":[\"127.0.0.1:"), 0u)
        << said;
    EXPECT_NE(said.find(fmt::format("]}},\"task\":{{\"type\":\"worker\",\"index\":{}}}}}\n"
                                    "TF_USE_LEGACY_KERAS=1\n",
                                    rank)),
              std::string::npos)
        << said;
  }
}

TEST_F(Backends, MpichTrainsThroughAKill) {
  if (mpi_python().empty()) GTEST_SKIP() << "MPICH is not installed";

  kill_and_restart(mpi_python(), "backend_worker.py", "mpi", "client: mpi, epochs: 4");

  EXPECT_EQ(cluster.read(cluster.run_dir("whole") + "/attempts/000/ranks/0001/stdout.log"),
            "MPICH: 2 on this node\n");
}

constexpr const char* kPmix = "mpi\nbackend_config: {pmi: pmix}";

/// Return the memory that ranks of Open MPI share, of all runs.
std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (contains(name, "sm_segment.") || contains(name, "vader_segment.")) names.insert(name);
  }
  return names;
}

TEST_F(Backends, OpenMpiTrainsThroughAKill) {
  if (openmpi_python().empty()) GTEST_SKIP() << "Open MPI is not installed";
  const std::set<std::string> before = shared_memory();

  kill_and_restart(openmpi_python(), "backend_worker.py", kPmix, "client: mpi, epochs: 4");

  EXPECT_EQ(cluster.read(cluster.run_dir("whole") + "/attempts/000/ranks/0001/stdout.log"),
            "Open MPI v5.0.11: 2 on this node\n");
  EXPECT_EQ(shared_memory(), before);
}

// The one of Debian 12, with Debian's libpmix.
TEST_F(Backends, OpenMpi4TrainsThroughAKill) {
  if (openmpi_4_python().empty()) GTEST_SKIP() << "Debian's python3-mpi4py is not installed";
  const std::set<std::string> before = shared_memory();

  kill_and_restart(openmpi_4_python(), "backend_worker.py", kPmix, "client: mpi, epochs: 4");

  EXPECT_EQ(cluster.read(cluster.run_dir("whole") + "/attempts/000/ranks/0001/stdout.log"),
            "Open MPI v4.1.4: 2 on this node\n");
  EXPECT_EQ(shared_memory(), before);
}

/// A job of two ranks that run a Python program, for which PMIx is served.
class Pmix : public Backends {
 protected:
  void SetUp() override {
    if (openmpi_python().empty()) GTEST_SKIP() << "Open MPI is not installed";
  }
  Process& start(const std::string& program, const std::string& env = "") {
    cluster.write("mpi.py",
                  "import os, signal, sys, time\nfrom mpi4py import MPI\n"
                  "world = MPI.COMM_WORLD\n" +
                      program);
    return cluster.train_run({cluster.job(
        "job", fmt::format("command: [{}, {}]\nbackend: {}\nenv: {{{}}}\n"
                           "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}",
                           openmpi_python(), cluster.path("mpi.py"), kPmix, env))});
  }
};

TEST_F(Pmix, ServesCommunicatorsOfAProgram) {
  Process& run = start(
      "half = world.Dup().Split(world.rank)\n"
      "assert (world.size, half.size) == (2, 1), world.size\n"
      "assert world.allgather(world.rank) == [0, 1]\n");

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Pmix, TellsOfAnAbort) {
  Process& run = start("world.Barrier()\nif world.rank == 1: world.Abort(7)\nworld.Barrier()\n");

  EXPECT_EQ(run.wait(), 7) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out() + run.err(), "rank 1: MPI_Abort with code 7\n"))
      << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "rank 1 on ")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Pmix, IsNeededBeforeAnyWorkerStarts) {
  Process& run = start("open('ran', 'w')\n", "TRAINRUN_PMIX_LIBRARY: /nowhere/libpmix.so.2");

  EXPECT_EQ(run.wait(), 127) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(),
                       "trainrun-pmix: /nowhere/libpmix.so.2: cannot open shared object "
                       "file: No such file or directory"))
      << run.out();
  EXPECT_TRUE(contains(run.out(), "install libpmix (Debian: libpmix2)")) << run.out();
  EXPECT_FALSE(exists(cluster.path("ran")));
  EXPECT_TRUE(nothing_left(cluster));
}

/// Run a shell command as the program, with a libpmix that says nonsense at that time.
class HostilePmix : public Backends {
 protected:
  Process& start(const std::string& when, const std::string& command) {
    return cluster.train_run({cluster.job(
        "job", fmt::format("command: '{}'\nbackend: {}\nenv: {{FAKE_PMIX: {}, "
                           "TRAINRUN_PMIX_LIBRARY: {}}}\n"
                           "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}",
                           command, kPmix, when, program("libfake_pmix.so")))});
  }
};

TEST_F(HostilePmix, CannotStartAnAttempt) {
  Process& run = start("early", "echo > ran");

  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "could not be started on ")) << run.out();
  EXPECT_TRUE(contains(run.out(), "trainrun-pmix: ")) << run.out();
  EXPECT_TRUE(contains(run.out(), "bytes exceeds 4194304")) << run.out();
  EXPECT_FALSE(exists(cluster.path("ran")));
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(HostilePmix, IsEndedAndTold) {
  Process& run = start("late", "echo preload=$LD_PRELOAD fake=$PMIX_FAKE; while test ! -e " +
                                   cluster.path("go") + "; do sleep 0.1; done");

  EXPECT_TRUE(wait_until([&] {
    return contains(run.out() + run.err(), "bytes exceeds 4194304") &&
           contains(run.out() + run.err(), "MPI_Finalize of this node's ranks will fail") &&
           cluster.processes("trainrun-pmix").empty();
  })) << run.out()
      << run.err();
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "preload= fake=1\n")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

// A program that has begun needs it no more until it ends.
TEST_F(Pmix, WhoseServerDiesIsTold) {
  Process& run =
      start(fmt::format("world.Barrier()\nopen('{0}/began', 'w')\n"
                        "while not os.path.exists('{0}/go'): time.sleep(0.05)\n"
                        "assert world.allreduce(1) == 2\nos._exit(0)\n",
                        cluster.dir()));
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("began")); })) << run.err();
  const auto servers = cluster.processes("trainrun-pmix");
  ASSERT_EQ(servers.size(), 1u);

  send_signal(servers.front().pid, SIGKILL);

  EXPECT_TRUE(wait_until([&] {
    return contains(run.out() + run.err(), "trainrun-pmix: it was killed by SIGKILL");
  })) << run.out()
      << run.err();
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(nothing_left(cluster));
}

// Whatever a program writes to its socket, it ends only its own conversation.
TEST_F(Backends, MpiSurvivesAProgramThatWritesNonsense) {
  cluster.write(
      "flood.py",
      "import os\n"
      "fd = int(os.environ['PMI_FD'])\n"
      "try:\n"
      "    if os.environ['RANK'] == '0':\n"
      "        for _ in range(8):\n"
      "            os.write(fd, b'x' * 4096)\n"
      "    os.write(fd, bytes(range(256)) + b'\\ncmd=put key=a value=b\\nmcmd=spawn\\n')\n"
      "except OSError:\n"
      "    pass\n");
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [python3, " + cluster.path("flood.py") +
                              "]\nbackend: mpi\n"
                              "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}")});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out() + run.err(), "bytes to PMI_FD that are no line of PMI-1"))
      << run.out() << run.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Backends, HorovodsRanksMeetAtTheRendezvous) {
  Process& run =
      cluster.train_run({cluster.job("job", fmt::format("command: [python3, {}/tests/e2e/programs/"
                                                        "backend_rendezvous.py]\nbackend: horovod\n"
                                                        "scaling_config: {{num_workers: 2, "
                                                        "resources_per_worker: {{CPU: 0}}}}",
                                                        TRAIN_SOURCE_DIR))},
                        {.env = outer_});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0001/stdout.log"),
            "met 2 as 1 2 0 1 node-0 lo\n");
}

// The hooks of Ray's TensorFlow backend, as commands: each publishes its address, and gets all.
TEST_F(Backends, CustomHooksTellWorkersThroughAKill) {
  const std::string publish = "echo \\\"$TRAINRUN_PORTS\\\"";
  Process& run = cluster.train_run({cluster.job(
      "job",
      "command: [/bin/sh, -c, 'test \"$CLUSTER\" = \"$TRAINRUN_PEERS\" || exit 9; "
      "echo $CLUSTER; test $TRAINRUN_ATTEMPT.$RANK = 0.1 && kill -9 $$; exit 0']\n"
      "backend: custom\nbackend_config:\n  ports: 1\n  publish: '" +
          publish +
          "'\n  on_start: echo \"CLUSTER=$TRAINRUN_PEERS\"\n"
          "  on_shutdown: echo $RANK >> shut-$TRAINRUN_ATTEMPT\n"
          "working_dir: " +
          cluster.dir() + "\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
      "  failure_config: {max_failures: 1}")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  const auto said = [&](int attempt, int rank) {
    return cluster.read(fmt::format("{}/attempts/{:03}/ranks/{:04}/stdout.log",
                                    cluster.run_dir("job"), attempt, rank));
  };
  EXPECT_EQ(said(1, 0), said(1, 1));
  EXPECT_TRUE(contains(said(1, 0), "[\"127.0.0.1:")) << said(1, 0);
  for (const char* file : {"shut-0", "shut-1"}) {
    const std::string ranks = cluster.read(cluster.path(file));
    EXPECT_TRUE(ranks == "0\n1\n" || ranks == "1\n0\n") << ranks;
  }
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(CustomHooks, HaveTheMemoryThatAWorkerClaims) {
  if (!can_limit("memory")) GTEST_SKIP() << kCannotLimit;
  const LimitingGroup group;
  Cluster cluster;
  const std::string job = cluster.job(
      "job", fmt::format("command: 'echo > trained'\nbackend: custom\nbackend_config: {{on_start: "
                         "[{}, eat, '400']}}\nscaling_config: {{num_workers: 1, "
                         "resources_per_worker: {{CPU: 0, memory: 200MiB}}}}",
                         program("plain_worker")));
  Process& run = cluster.train_run({job}, group.inside());

  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "on_start of rank 0: it was killed by SIGKILL")) << run.out();
  EXPECT_FALSE(exists(cluster.path("trained")));
}

TEST_F(LargeClients, JaxTrainsThroughAKill) {
  kill_and_restart(frameworks_python(), "backend_worker.py", "jax", "client: jax, epochs: 4");
}

TEST_F(LargeClients, JaxTakesItsPlaceAsArgumentsToo) {
  kill_and_restart(frameworks_python(), "backend_worker.py", "jax",
                   "client: jax_arguments, epochs: 4");
}

TEST_F(LargeClients, JaxStopsAtOneStepOnAllRanks) {
  Process& run = cluster.train_run({cluster.job(
      "job", fmt::format("command: [{}, {}/tests/e2e/programs/backend_jax_stop.py, {}]\n"
                         "backend: jax\nenv: {{JAX_PLATFORMS: cpu}}\n"
                         "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}",
                         frameworks_python(), TRAIN_SOURCE_DIR, cluster.dir()))});
  for (const char* file : {"trains-0", "trains-1"})
    ASSERT_TRUE(wait_until([&] { return exists(cluster.path(file)); }, std::chrono::minutes(2)))
        << run.out() << run.err();

  run.signal(SIGINT);

  ASSERT_TRUE(run.wait(std::chrono::minutes(2)).has_value()) << run.out() << run.err();
  const std::string step = cluster.read(cluster.path("stopped-0"));
  EXPECT_FALSE(step.empty()) << run.out() << run.err();
  EXPECT_EQ(cluster.read(cluster.path("stopped-1")), step);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(LargeClients, TensorflowTrainsThroughAKill) {
  kill_and_restart(frameworks_python(), "backend_tensorflow.py", "tensorflow", "epochs: 4");
}

}  // namespace
}  // namespace train::e2e
