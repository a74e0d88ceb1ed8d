// What is measured of a run's ranks, node and GPUs comes into its folder, and `train-run status`
// shows it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "lib/samples/sample_reader.h"
#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::vector<SampleTable> kept(const Cluster& cluster, SampleKind kind) {
  auto tables = read_samples(cluster.run_dir("job") + "/samples.jsonl", {.kind = kind});
  return tables ? std::move(*tables) : std::vector<SampleTable>{};
}

bool is_for_the_owner_only(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & 0777) == 0600;
}

/// Return what `train-run status` prints; "" until something was measured.
std::string status_of(Cluster& cluster, const std::vector<std::string>& more = {}) {
  if (!exists(cluster.run_dir("job") + "/.samples.now.jsonl")) return "";
  std::vector<std::string> arguments{"status", cluster.run_dir("job")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Process& status = cluster.train_run(arguments);
  EXPECT_EQ(status.wait(), 0) << status.err();
  return status.out();
}

TEST(Samples, ShowWhatEachRankIsDoing) {
  Cluster cluster;
  cluster.train_run({cluster.job(
      "job", "command: [" + program("hanging_worker") +
                 "]\ntrain_loop_config: {how: phase}\nscaling_config: {num_workers: 2, "
                 "resources_per_worker: {CPU: 0}}")});

  ASSERT_TRUE(wait_until([&] {
    return contains(status_of(cluster), "own (download: 3 of 9 GiB)");
  })) << status_of(cluster);
  EXPECT_TRUE(contains(status_of(cluster), "collective (barrier)")) << status_of(cluster);
  ASSERT_TRUE(wait_until([&] { return !kept(cluster, SampleKind::Nodes).empty(); }));

  const auto json = boost::json::parse(status_of(cluster, {"--output", "json"})).as_object();
  const auto& ranks = json.at("ranks").as_array();
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].at("phase").as_string(), "own");
  EXPECT_EQ(ranks[1].at("pid").as_int64(), cluster.worker(1).value_or(-1));
  EXPECT_GT(json.at("nodes").at(0).at("memory_used").as_int64(), 0);
  EXPECT_GT(json.at("nodes").at(0).at("run_free").as_int64(), 0);
  for (const char* name : {"/samples.jsonl", "/.samples.now.jsonl"})
    EXPECT_TRUE(is_for_the_owner_only(cluster.run_dir("job") + name)) << name;
}

TEST(Samples, StayWhenTheRunHasEndedAndItsLauncherWasReplaced) {
  Cluster cluster;
  Process& first = start_waiting_worker(cluster);
  ASSERT_TRUE(wait_until([&] { return !kept(cluster, SampleKind::Ranks).empty(); }));
  send_signal(first.pid(), SIGKILL);
  first.wait();
  const std::size_t before = kept(cluster, SampleKind::Ranks).size();
  std::ofstream(cluster.run_dir("job") + "/samples.jsonl", std::ios::app) << "{\"t\":18";

  Process& next = cluster.train_run({"resume", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] { return kept(cluster, SampleKind::Ranks).size() > before; }))
      << next.err();
  cluster.write("go", "");
  EXPECT_EQ(next.wait(), 0) << next.err();

  EXPECT_GT(kept(cluster, SampleKind::Ranks).size(), before);
  EXPECT_FALSE(contains(status_of(cluster), "step time"));
}

/// NVML's fake (tests/e2e/programs/fake_nvml.cc) plays a GPU whose driver reports an error.
TEST(Samples, TellOfGpusThatAreInTrouble) {
  Cluster cluster;
  const std::string settings =
      cluster.write("nvml", "gpus 1\n0.use 93\n0.memory 4096\n0.memory_used 2048\n");
  const auto put = [&](const std::string& text) {
    cluster.write("nvml.new", text);
    std::filesystem::rename(cluster.path("nvml.new"), settings);
  };
  const std::string job = cluster.job("job", "command: [" + program("plain_worker") +
                                                 ", wait-for, " + cluster.path("go") +
                                                 "]\nscaling_config: {num_workers: 1, use_gpu: "
                                                 "true, resources_per_worker: {CPU: 0, GPU: 1}}");
  Process& run = cluster.train_run(
      {job}, {.env = {{"LD_LIBRARY_PATH", FAKE_NVML_FOLDER}, {"TRAINRUN_FAKE_NVML", settings}}});

  ASSERT_TRUE(wait_until([&] { return contains(status_of(cluster), "0: 93 %, 2.0 KiB"); }))
      << status_of(cluster) << run.err();
  const auto newest = read_newest_samples(cluster.run_dir("job") + "/.samples.now.jsonl");
  ASSERT_TRUE(newest);
  for (const SampleTable& table : *newest) {
    if (table.kind != SampleKind::Gpus) continue;
    EXPECT_EQ(table.number("use", 0), 0.93);
    EXPECT_EQ(table.text("ranks", 0), "0");
    EXPECT_EQ(table.text("state", 0), "ok");
  }
  ASSERT_TRUE(wait_until([&] { return !kept(cluster, SampleKind::Nodes).empty(); }));
  put("gpus 1\n0.use 93\n0.xid 79\n");
  const std::string node = kept(cluster, SampleKind::Nodes).front().rows.front();
  const std::string said =
      "GPU 0 of " + node + " (rank 0) reported Xid 79: it has fallen off the bus";
  ASSERT_TRUE(wait_until([&] { return contains(run.out() + run.err(), said); })) << run.err();
  put("gpus 1\n0.lost 1\n0.xid 79\n");
  ASSERT_TRUE(wait_until([&] { return contains(run.out() + run.err(), "(rank 0) is lost"); }));
  bool noted = false;
  for (const auto& record : cluster.journal("job"))
    noted |= text_of(record, "event") == "gpu_trouble" && text_of(record, "text") == said;
  EXPECT_TRUE(noted);
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0) << run.err();
}

}  // namespace
}  // namespace train::e2e
