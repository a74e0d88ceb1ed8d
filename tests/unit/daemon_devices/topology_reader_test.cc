// What is read of a node's CPUs, from folders that look like sysfs.
#include "daemon/devices/topology_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

namespace train {
namespace {

namespace fs = std::filesystem;

class Topology : public testing::Test {
 protected:
  Topology() {
    std::string pattern = testing::TempDir() + "sysXXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~Topology() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    const fs::path file = fs::path(root_) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void cpu(int number, const std::string& threads, const std::string& socket,
           const std::string& cache) const {
    const std::string at = fmt::format("devices/system/cpu/cpu{}/", number);
    put(at + "topology/thread_siblings_list", threads);
    put(at + "topology/core_siblings_list", socket);
    put(at + "cache/index0/level", "1");
    put(at + "cache/index0/shared_cpu_list", threads);
    put(at + "cache/index1/level", "3");
    put(at + "cache/index1/shared_cpu_list", cache);
  }
  std::string root_;
};

TEST_F(Topology, CoresSocketsNodesAndCachesAreNamedAfterTheirFirstCpu) {
  put("devices/system/cpu/online", "0-1,3-5");  // 2 is offline
  put("devices/system/node/online", "0,4");
  put("devices/system/node/node0/cpulist", "0-1");
  put("devices/system/node/node4/cpulist", "2-5");
  cpu(0, "0-1", "0-1", "0-1");
  cpu(1, "0-1", "0-1", "0-1");
  cpu(3, "3", "3-5", "3");
  cpu(4, "4-5", "3-5", "4-5");
  cpu(5, "4-5", "3-5", "4-5");

  EXPECT_EQ(read_cpu_topology(root_).cpus,
            (std::vector<CpuPlace>{{.cpu = 0, .core = 0, .socket = 0, .node = 0, .complex = 0},
                                   {.cpu = 1, .core = 0, .socket = 0, .node = 0, .complex = 0},
                                   {.cpu = 3, .core = 3, .socket = 3, .node = 4, .complex = 3},
                                   {.cpu = 4, .core = 4, .socket = 3, .node = 4, .complex = 4},
                                   {.cpu = 5, .core = 4, .socket = 3, .node = 4, .complex = 4}}));
}

TEST_F(Topology, AMachineThatTellsOnlyItsCpusHasOneOfEach) {
  put("devices/system/cpu/online", "0-1");

  EXPECT_EQ(read_cpu_topology(root_).cpus,
            (std::vector<CpuPlace>{{.cpu = 0, .core = 0, .socket = 0, .node = 0, .complex = -1},
                                   {.cpu = 1, .core = 1, .socket = 0, .node = 0, .complex = -1}}));
}

TEST_F(Topology, WhatMakesNoSenseIsNothing) {
  EXPECT_TRUE(read_cpu_topology(root_).cpus.empty());
  put("devices/system/cpu/online", "0-4294967295");
  EXPECT_TRUE(read_cpu_topology(root_).cpus.empty());
}

TEST_F(Topology, AGpusNodeIsFoundByTheNameThatNvmlHasForIt) {
  put("bus/pci/devices/0000:3b:00.0/numa_node", "1");
  put("bus/pci/devices/0000:af:00.0/numa_node", "-1");

  EXPECT_EQ(numa_node_of_device("00000000:3B:00.0", root_), 1);
  EXPECT_EQ(numa_node_of_device("00000000:AF:00.0", root_), -1);
  EXPECT_EQ(numa_node_of_device("00000000:01:00.0", root_), -1);
  EXPECT_EQ(numa_node_of_device("../../0000:3b:00.0", root_), -1);
  EXPECT_EQ(numa_node_of_device("", root_), -1);
}

TEST(AllowedCpus, AreThoseOfThisProcess) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const CpuSet all = allowed_cpus();
  EXPECT_EQ(static_cast<int>(all.size()), CPU_COUNT(&before));
  CPU_ZERO(&one);
  CPU_SET(*all.rbegin(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(allowed_cpus(), CpuSet{*all.rbegin()});
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace train
