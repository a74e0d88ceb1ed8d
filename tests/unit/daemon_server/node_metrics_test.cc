#include "daemon/server/node_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/fakes/golden.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(NodeMetrics, AreThePageThatPrometheusReads) {
  NodeCounts counts{
      .total = {.cpu = 64, .gpu = 8, .memory_bytes = 1ull << 39, .custom = {{"tape", 1}}},
      .claimed = {.cpu = 16, .gpu = 4, .memory_bytes = 1ull << 37},
      .runs = 2,
      .waiting = 1,
      .supervisors = 3,
      .standby = 1,
      .draining = true};
  const NodeVitals vitals{.cpu_seconds = {{"user", 12.5}, {"idle", 100}},
                          .load_1m = 3.25,
                          .memory_total = 1000,
                          .memory_available = 400,
                          .disks = {{"spool", 2000, 1500}, {"data", 3000, 1}}};
  fakes::expect_golden(std::string(TRAIN_SOURCE_DIR) + "/tests/golden/report/node_metrics.txt",
                       node_metrics_text(counts, vitals, "gpu-\"1\"", "1.2.3"));
}

TEST(NodeMetrics, LeaveOutWhatTheMachineDoesNotSay) {
  const std::string text = node_metrics_text({}, {}, "n", "b");
  EXPECT_EQ(text.find("memory_total"), std::string::npos);
  EXPECT_NE(text.find("\ntrainrun_node_runs 0\n"), std::string::npos);
}

TEST(NodeMetrics, ReadProc) {
  EXPECT_THAT(
      parse_cpu_seconds("cpu  250 0 100 4000 5 0 1 0 0 0\ncpu0 1 2 3\n", 100),
      ElementsAre(Pair("user", 2.5), Pair("nice", 0), Pair("system", 1), Pair("idle", 40),
                  Pair("iowait", 0.05), Pair("irq", 0), Pair("softirq", 0.01), Pair("steal", 0)));
  EXPECT_TRUE(parse_cpu_seconds("intr 1 2", 100).empty());
  EXPECT_TRUE(parse_cpu_seconds("", 100).empty());
  const std::string meminfo = "MemTotal:  2000 kB\nMemFree: 1 kB\nMemAvailable:   1500 kB\n";
  EXPECT_EQ(parse_memory(meminfo, "MemAvailable"), 1500u * 1024);
  EXPECT_EQ(parse_memory(meminfo, "Mem"), 0u);

  const NodeVitals vitals = read_node_vitals("/", "/no such folder");
  EXPECT_GT(vitals.memory_available, 0u);
  EXPECT_LT(vitals.memory_available, vitals.memory_total);
  EXPECT_EQ(vitals.cpu_seconds.size(), 8u);
  ASSERT_EQ(vitals.disks.size(), 1u);
  EXPECT_EQ(vitals.disks[0].total, std::filesystem::space("/").capacity);
}

}  // namespace
}  // namespace train
