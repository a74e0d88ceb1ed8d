// Where workers run: labels, `num_workers: auto`, CPUs, GPUs, and what nodes would run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <tuple>

#include "lib/base/cpu_list.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

const std::vector<std::string> kTwoCores{"--resource", "CPU=2"};

std::vector<std::string> with(std::vector<std::string> options,
                              const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::string say_node(const Cluster& cluster, const std::string& scaling) {
  return cluster.job(
      "job", "command: 'echo rank $RANK of $WORLD_SIZE'\nscaling_config: " + scaling + "\n");
}

/// Two nodes, in rack r0 and in rack r1, with two cores each.
struct TwoRacks {
  TwoRacks() {
    for (const int node : {0, 1})
      nodes.start(node, with(kTwoCores, {"--label", fmt::format("rack=r{}", node)}));
  }
  Cluster cluster;
  Nodes nodes{cluster, 2};
};

TEST(Labels, AWorkerRunsWhereItsSelectorSays) {
  TwoRacks two;

  Process& run = two.nodes.train_run(
      say_node(two.cluster, "{num_workers: 2, label_selector: {rack: r1, gpu: '!H100'}}"), 2);

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "[n1 0] rank 0 of 2")) << run.out();
  EXPECT_TRUE(contains(run.out(), "[n1 1] rank 1 of 2")) << run.out();
}

TEST(Labels, EachWorkerCanHaveItsOwnSelector) {
  TwoRacks two;

  Process& run = two.nodes.train_run(
      say_node(two.cluster, "{num_workers: 2, label_selector: [{rack: r1}, {rack: 'in(r0,r9)'}]}"),
      2);

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "[n0 0] rank 0 of 2")) << run.out();
  EXPECT_TRUE(contains(run.out(), "[n1 1] rank 1 of 2")) << run.out();
}

TEST(Labels, ASelectorThatNoNodeMeetsIsOneMessageWithTheLabelsThatThereAre) {
  TwoRacks two;

  Process& run =
      two.nodes.train_run(say_node(two.cluster, "{num_workers: 1, label_selector: {rack: r7}}"), 2);

  EXPECT_EQ(run.wait(), 69);
  EXPECT_TRUE(contains(run.out() + run.err(),
                       "no node has the labels that label_selector asks for (rack: r7): n0 has "))
      << run.out() << run.err();
  EXPECT_TRUE(contains(run.out() + run.err(), "rack=r1")) << run.err();
}

TEST(Labels, AreInTheTableOfNodes) {
  TwoRacks two;

  Process& asked = two.cluster.train_run(
      {"nodes", "--hosts", two.nodes.hosts(2), "--token-file", two.cluster.path("token")});

  EXPECT_EQ(asked.wait(), 0) << asked.err();
  EXPECT_TRUE(contains(asked.out(), "n0: labels: arch=")) << asked.out();
  EXPECT_TRUE(contains(asked.out(), "rack=r1")) << asked.out();
}

TEST(AutomaticWorkers, AreAsManyAsTheNodesHaveCores) {
  TwoRacks two;

  Process& run = two.nodes.train_run(say_node(two.cluster, "{num_workers: auto}"), 2);

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "rank 3 of 4")) << run.out();
  EXPECT_TRUE(contains(two.cluster.read(two.cluster.run_dir("job") + "/spec.resolved.yaml"),
                       "num_workers: 4"));
}

TEST(AutomaticWorkers, AreThoseOfThisMachineWithoutACluster) {
  Cluster cluster;

  Process& run = cluster.train_run({say_node(cluster, "{num_workers: auto}")},
                                   {.prefix = {"taskset", "-c", "0"}});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "rank 0 of 1")) << run.out();
}

TEST(Labels, ATraindRefusesAnOptionThatFitsNothing) {
  Cluster cluster;
  for (const auto& [option, value, why] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--label", "rack", "'rack' is not NAME=VALUE, as in rack=r1"},
           {"--gpus", "77", "--gpus names '77', and this node has "}}) {
    Process& daemon = cluster.traind({option, value, "--runtime-dir", cluster.path("rt1")});
    EXPECT_EQ(daemon.wait(), 64);
    EXPECT_TRUE(contains(daemon.err(), why)) << daemon.err();
  }
}

/// Return what /proc says of the CPUs that each rank may use, by what its worker prints.
std::map<int, std::string> cpus_of_ranks(const std::string& out) {
  std::map<int, std::string> cpus;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("] rank ");
    const std::size_t list = line.find(": Cpus_allowed_list:");
    if (at == line.npos || list == line.npos) continue;
    cpus[std::stoi(line.substr(at + 7))] = line.substr(line.find_last_of("\t ") + 1);
  }
  return cpus;
}

std::string say_cpus(const Cluster& cluster, int workers, const std::string& bind) {
  return cluster.job(
      "job", fmt::format("command: 'echo rank $RANK: $(grep Cpus_allowed_list /proc/self/status)'\n"
                         "scaling_config: {{num_workers: {}, bind: {}, resources_per_worker: "
                         "{{CPU: 0}}}}\n",
                         workers, bind));
}

TEST(Binding, ExclusiveWorkersHaveCoresOfTheirOwn) {
  Cluster cluster;
  Process& run = cluster.train_run({say_cpus(cluster, 2, "exclusive")});

  EXPECT_EQ(run.wait(), 0) << run.err();
  const auto seen = cpus_of_ranks(run.out());
  ASSERT_EQ(seen.size(), 2u) << run.out();
  const CpuSet first = parse_cpu_list(seen.at(0)).value(),
               second = parse_cpu_list(seen.at(1)).value();
  const bool shares = contains(run.err() + run.out(), "which share cores");
  for (const int cpu : first) EXPECT_EQ(second.contains(cpu), shares) << run.out();
}

TEST(Binding, OneCoreForTwoWorkersIsSharedAndSaidOnce) {
  Cluster cluster;
  Process& run =
      cluster.train_run({say_cpus(cluster, 2, "exclusive")}, {.prefix = {"taskset", "-c", "0"}});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(cpus_of_ranks(run.out()), (std::map<int, std::string>{{0, "0"}, {1, "0"}}))
      << run.out();
  const std::string said = run.out() + run.err();
  const std::string note = "has 1 free core for 2 workers, which share cores";
  EXPECT_TRUE(contains(said, note)) << said;
}

TEST(Binding, StaysWithinTheMaskThatTraindWasGiven) {
  Cluster cluster;
  Process& run =
      cluster.train_run({say_cpus(cluster, 1, "node")}, {.prefix = {"taskset", "-c", "0"}});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(cpus_of_ranks(run.out()), (std::map<int, std::string>{{0, "0"}})) << run.out();
}

/// NVML's fake (tests/e2e/programs/fake_nvml.cc) plays the GPUs.
StartOptions with_fake_gpus(const Cluster& cluster, const std::string& settings) {
  return {.env = {{"LD_LIBRARY_PATH", FAKE_NVML_FOLDER},
                  {"TRAINRUN_FAKE_NVML", cluster.write("nvml", settings)}}};
}
std::string say_gpus(const Cluster& cluster, const std::string& scaling) {
  return cluster.job("job",
                     "command: 'echo rank $RANK sees GPU $CUDA_VISIBLE_DEVICES'\n"
                     "scaling_config: {use_gpu: true, " +
                         scaling + "}\n");
}

TEST(Gpus, AWorkerGetsThoseThatTheSpecNames) {
  Cluster cluster;
  Process& run = cluster.train_run({say_gpus(cluster,
                                             "num_workers: auto, gpus: [GPU-fake-2, 0], "
                                             "resources_per_worker: {CPU: 0}")},
                                   with_fake_gpus(cluster, "gpus 3\n"));

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "rank 1 sees GPU 0,2")) << run.out();
}

TEST(Gpus, WorkersThatShareOneSeeThatOneOnly) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {say_gpus(cluster, "num_workers: auto, resources_per_worker: {CPU: 0, GPU: 0.5}")},
      with_fake_gpus(cluster, "gpus 2\n"));

  EXPECT_EQ(run.wait(), 0) << run.err();
  for (const char* line :
       {"rank 0 sees GPU 0", "rank 1 sees GPU 0", "rank 2 sees GPU 1", "rank 3 sees GPU 1"})
    EXPECT_TRUE(contains(run.out(), line)) << line << run.out();
}

/// Start a process that no run has started, for the fake to name.
Process& other_program(Cluster& cluster) { return cluster.start({"/bin/sleep", "600"}); }
/// Return whether the numbers of processes mean the same to the driver: not in a container.
bool sees_all_processes() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/ns/pid", none) == "pid:[4026531836]";
}

TEST(Gpus, OneThatSomebodyElseUsesIsNamedOrRefused) {
  if (!sees_all_processes()) GTEST_SKIP() << "this is no initial PID namespace";
  for (const bool refuse : {false, true}) {
    Cluster cluster;
    Process& other = other_program(cluster);
    Process& run = cluster.train_run(
        {say_gpus(cluster, fmt::format("num_workers: 1, gpu_in_use: {}, resources_per_worker: "
                                       "{{CPU: 0}}",
                                       refuse ? "refuse" : "warn"))},
        with_fake_gpus(cluster, fmt::format("gpus 1\n0.process {}\n", other.pid())));

    EXPECT_EQ(run.wait(), refuse ? 1 : 0) << run.err();
    EXPECT_EQ(contains(run.out(), "rank 0 sees GPU 0"), !refuse) << run.out();
    EXPECT_TRUE(contains(run.out() + run.err(),
                         fmt::format("GPU 0 is in use by pid {} (sleep) of ", other.pid())))
        << run.out() << run.err();
  }
}

/// Two nodes that see different files under the same name, as root can arrange it.
struct TwoPrograms {
  TwoPrograms() {
    cluster.write("tool", "#!/bin/sh\necho rank $RANK runs the first\n");
    cluster.write("other", "#!/bin/sh\necho rank $RANK runs the other\n");
    for (const char* name : {"tool", "other"})
      std::filesystem::permissions(cluster.path(name), std::filesystem::perms::owner_all);
    nodes.start(0, {"--resource", "CPU=1"});
    nodes.start(1, {"--resource", "CPU=1"},
                {"unshare", "-m", "sh", "-c",
                 fmt::format("mount --bind {} {} && exec \"$0\" \"$@\"", cluster.path("other"),
                             cluster.path("tool"))});
  }
  Process& run(const std::string& check) {
    return nodes.train_run(
        cluster.job("job",
                    "command: [" + cluster.path("tool") + "]\nscaling_config: {num_workers: 2}\n",
                    "  check_digests: " + check + "\n"),
        2);
  }
  Cluster cluster;
  Nodes nodes{cluster, 2};
};

TEST(Digests, NodesThatWouldRunAnotherProgramAreNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can show nodes different files";
  TwoPrograms two;
  const std::string said =
      "n1 would not run the same as n0: " + two.cluster.path("tool") + " is another one";

  Process& warned = two.run("warn");
  EXPECT_EQ(warned.wait(), 0) << warned.err();
  EXPECT_TRUE(contains(warned.out() + warned.err(), said)) << warned.out() << warned.err();
  EXPECT_TRUE(contains(warned.out(), "rank 1 runs the other")) << warned.out();
}

TEST(Digests, AreRefusedBeforeAnyWorkerStartsIfTheSpecSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can show nodes different files";
  TwoPrograms two;

  Process& refused = two.run("refuse");

  EXPECT_EQ(refused.wait(), 1) << refused.err();
  EXPECT_TRUE(contains(refused.out() + refused.err(), "n1 would not run the same as n0: "))
      << refused.err();
  EXPECT_FALSE(contains(refused.out(), "runs the")) << refused.out();
}

}  // namespace
}  // namespace train::e2e
