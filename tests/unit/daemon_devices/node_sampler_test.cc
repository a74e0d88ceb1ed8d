#include "daemon/devices/node_sampler.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace train {
namespace {

namespace fs = std::filesystem;

class NodeSampler : public testing::Test {
 protected:
  NodeSampler() {
    char name[] = "/tmp/node_sampler_test.XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~NodeSampler() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  NodeSample sample() { return sample_node(root_.string(), root_.string()); }
  fs::path root_;
};

TEST_F(NodeSampler, ReadsWhatTheKernelCounts) {
  put("proc/stat", "cpu  100 20 30 4000 50 6 4 7 0 0\ncpu0 1 2 3\n");
  put("proc/loadavg", "1.25 0.50 0.10 2/300 4711\n");
  put("proc/meminfo",
      "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n"
      "SwapTotal: 50 kB\nSwapFree: 20 kB\n");
  put("proc/diskstats",
      "   8  0 sda 1 2 30 4 5 6 70 8 9 10 11\n   8  1 sda1 1 2 30 4 5 6 70 8\n"
      " 254  0 dm-0 1 2 30 4 5 6 70 8 9 10 11\n");
  put("sys/block/sda/device/model", "");
  put("proc/net/dev",
      "Inter-|   Receive  |  Transmit\n face |bytes packets\n"
      "    lo: 7 0 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n"
      "  eth0: 1000 0 0 0 0 0 0 0 200 0 0 0 0 0 0 0\n"
      "   br0: 1000 0 0 0 0 0 0 0 200 0 0 0 0 0 0 0\n");
  put("sys/class/net/eth0/device/vendor", "");
  put("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=71\n");
  put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=72\nfull total=1\n");
  put("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=73\nfull total=1\n");

  const NodeSample found = sample();

  EXPECT_GE(found.cpus, 1);
  EXPECT_EQ(found.cpu_us, 1'600'000);  // 160 ticks
  EXPECT_EQ(found.load_hundredths, 125);
  EXPECT_EQ(found.memory_bytes, 1000 * 1024);
  EXPECT_EQ(found.memory_used_bytes, 600 * 1024);
  EXPECT_EQ(found.swap_used_bytes, 30 * 1024);
  EXPECT_GT(found.spool_free_bytes, 0);
  EXPECT_GE(found.spool_bytes, found.spool_free_bytes);
  EXPECT_EQ(found.read_bytes, 30 * 512);
  EXPECT_EQ(found.written_bytes, 70 * 512);
  EXPECT_EQ(found.received_bytes, 1000);
  EXPECT_EQ(found.sent_bytes, 200);
  EXPECT_EQ(found.cpu_pressure_us, 71);
  EXPECT_EQ(found.memory_pressure_us, 72);
  EXPECT_EQ(found.io_pressure_us, 73);
}

TEST_F(NodeSampler, CountsAllInterfacesWhereNoneIsADevice) {
  put("proc/net/dev", "    lo: 7 0 0 0 0 0 0 0 7 0\n  veth1: 30 0 0 0 0 0 0 0 40 0\n");
  EXPECT_EQ(sample().received_bytes, 30);
  EXPECT_EQ(sample().sent_bytes, 40);
}

TEST_F(NodeSampler, KnowsNothingOfWhatCannotBeRead) {
  put("proc/stat", "nonsense");
  put("proc/loadavg", "-3");
  put("proc/meminfo", "MemTotal: 99999999999999999999 kB\n");

  NodeSample found = sample_node("/nowhere", root_.string());
  found.cpus = kNotKnown;

  EXPECT_EQ(found, NodeSample{});
}

TEST_F(NodeSampler, ReadsThisMachine) {
  const NodeSample found = sample_node("/tmp");
  EXPECT_GT(found.cpu_us, 0);
  EXPECT_GT(found.memory_bytes, found.memory_used_bytes);
  EXPECT_GE(found.load_hundredths, 0);
}

}  // namespace
}  // namespace train
