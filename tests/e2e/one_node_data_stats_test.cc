// A run that waits for its data says so, and which operator holds up which rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <regex>

#include "lib/samples/sample_reader.h"
#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

/// Write a job of three ranks that reads 900 lines; the map `stretch` is slow on rank 2.
std::string slow_job(const Cluster& cluster, int slow_ms) {
  std::string lines;
  for (int row = 0; row < 900; ++row) lines += "{\"x\": " + std::to_string(row) + "}\n";
  return cluster.job(
      "job", "command: [" + program("slow_data_worker") +
                 "]\ntrain_loop_config: {end_file: " + cluster.path("end") +
                 "}\ndatasets: {train: {path: " + cluster.write("rows.jsonl", lines) +
                 ", map: [{cast: {column: x, type: float32}}, {stretch: {slow_rank: 2, slow_ms: " +
                 std::to_string(slow_ms) +
                 "}}]}}\nscaling_config: {num_workers: 3, resources_per_worker: {CPU: 0}}");
}

std::string status_of(Cluster& cluster, const std::vector<std::string>& more = {}) {
  if (!exists(cluster.run_dir("job") + "/.samples.now.jsonl")) return "";
  std::vector<std::string> arguments{"status", cluster.run_dir("job")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Process& status = cluster.train_run(arguments);
  EXPECT_EQ(status.wait(), 0) << status.err();
  return status.out();
}

bool is_verdict(const std::string& text) {
  return std::regex_search(
      text, std::regex(R"(data-bound \d+ %: map stretch, [0-9.]+ (k )?rows/s on rank 2)"));
}

TEST(Data, ASlowMapOnOneRankIsNamedInStatusSummaryAndFiles) {
  Cluster cluster;
  Process& run = cluster.train_run({slow_job(cluster, 30)});
  ASSERT_TRUE(wait_until([&] { return is_verdict(status_of(cluster)); }))
      << status_of(cluster) << run.err();
  const auto json = boost::json::parse(status_of(cluster, {"--output", "json"})).as_object();
  EXPECT_EQ(json.at("data_bound").at("rank"), 2);
  EXPECT_EQ(json.at("data_bound").at("operator"), "map stretch");
  bool found = false;
  for (const auto& row : json.at("data").as_array())
    found |=
        row.at("operator") == "train/map stretch/2" && row.at("busy").to_number<double>() > 0.5;
  EXPECT_TRUE(found) << json.at("data");
  // It is said to who watches, once it has lasted.
  ASSERT_TRUE(wait_until([&] { return is_verdict(run.out() + run.err()); }, Seconds(90)))
      << run.err();
  cluster.write("end", "");
  ASSERT_EQ(run.wait(), 0) << run.err();

  const std::size_t row = run.out().find("\n  data ");
  ASSERT_NE(row, std::string::npos) << run.out();
  EXPECT_TRUE(is_verdict(run.out().substr(row, run.out().find('\n', row + 1) - row))) << run.out();
  const auto ended = cluster.run_json("job");
  EXPECT_EQ(ended.at("data_bound").at("operator").as_string(), "map stretch");
  EXPECT_EQ(ended.at("data_bound").at("rank").as_int64(), 2);

  // What the samples say at the end is what the ranks say of themselves, of whole passes.
  const auto tables = read_newest_samples(cluster.run_dir("job") + "/.samples.now.jsonl").value();
  const auto data = std::find_if(tables.begin(), tables.end(), [](const SampleTable& table) {
    return table.kind == SampleKind::Data;
  });
  ASSERT_NE(data, tables.end());
  for (const char* name :
       {"train/index/2", "train/decode/2", "train/gather/2", "train/map cast/2",
        "train/map stretch/2", "train/batch/2", "train/loop/2", "train/loop/all"})
    EXPECT_NE(std::find(data->rows.begin(), data->rows.end(), name), data->rows.end()) << name;
  const auto& operators = ended.at("results").at(2).at("operators").as_object();
  EXPECT_EQ(operators.at("loop").as_int64(),
            300 * ended.at("results").at(2).at("passes").as_int64());
  EXPECT_EQ(operators.at("index").as_int64(), 900);
  const auto history =
      read_samples(cluster.run_dir("job") + "/samples.jsonl", {.kind = SampleKind::Data}).value();
  EXPECT_GT(history.size(), 3u);
  bool noted = false;
  for (const auto& record : cluster.journal("job"))
    noted |= text_of(record, "event") == "data_bound" && is_verdict(text_of(record, "text"));
  EXPECT_TRUE(noted);
}

TEST(Data, ARunThatHasItsDataIsNotAccused) {
  Cluster cluster;
  Process& run = cluster.train_run({slow_job(cluster, 0)});
  ASSERT_TRUE(wait_until([&] {
    return contains(status_of(cluster, {"--output", "json"}), "train/loop/0");
  }));
  cluster.write("end", "");
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_FALSE(contains(run.out(), ": map stretch,")) << run.out();
}

}  // namespace
}  // namespace train::e2e
