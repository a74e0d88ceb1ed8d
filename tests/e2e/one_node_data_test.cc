// train-run data: with real files of every format, written by pyarrow, Pillow, numpy and tarfile.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <regex>

#include "tests/e2e/said_by.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

class Data : public testing::Test {
 protected:
  void SetUp() override {
    if (tools_python().empty()) GTEST_SKIP() << "the tools' Python is not installed";
  }

  void make(const std::string& what = "") {
    std::vector<std::string> argv{tools_python(),
                                  TRAIN_SOURCE_DIR "/tests/e2e/programs/make_datasets.py"};
    if (!what.empty()) argv.push_back(what);
    Process& made = cluster.start(argv);
    ASSERT_EQ(made.wait(), 0) << made.err();
  }
  void write_spec(const std::string& datasets) {
    cluster.write("job.yaml",
                  "command: [\"true\"]\nscaling_config: {num_workers: 2}\ndatasets:\n" + datasets);
  }
  std::string said(std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    // How wide a table is depends on the length of the folder's name.
    return std::regex_replace(said_by(cluster, cluster.train_run(words)), std::regex("   +"), "  ");
  }
  json::object said_json(std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    Process& process = cluster.train_run(words);
    EXPECT_EQ(process.wait(), 0) << process.err();
    return json::parse(process.out()).as_object().at("datasets").as_array().at(0).as_object();
  }

  Cluster cluster;
};

TEST_F(Data, Help) {
  std::string text;
  for (const std::vector<std::string>& words :
       std::initializer_list<std::vector<std::string>>{{"--help"},
                                                       {"inspect", "--help"},
                                                       {"plan", "--help"},
                                                       {"inspekt", "job.yaml"},
                                                       {"plan", "job.yaml", "--worker", "8"}})
    text += said(words) + "\n";
  expect_golden("data_help", text);
}

TEST_F(Data, InspectShowsDatasetsOfEveryFormat) {
  make();
  write_spec(
      "  array: {path: array.npy}\n"
      "  cifar: {path: batch.bin, format: cifar}\n"
      "  feather: {path: rows.arrow, columns: [id, name]}\n"
      "  items: {format: items, items: [{x: 1, y: [1, 2]}, {x: 2, y: [3, 4]}]}\n"
      "  lines: {path: lines.jsonl}\n"
      "  numbers: {path: numbers/, filter: label < 3, limit: 10}\n"
      "  orc: {path: rows.orc}\n"
      "  pics: {format: images, path: pics, size: [4, 4], map: [flip, my_map]}\n"
      "  text: {path: text/}\n"
      "  web: {path: shards/000.tar}\n");
  expect_golden("data_inspect", said({"inspect", "job.yaml"}));
}

TEST_F(Data, InspectNamesWhatIsWrong) {
  make();
  cluster.write("pics/dog/9.jpg", "no picture");
  write_spec(
      "  broken: {format: images, path: pics, size: [4, 4]}\n"
      "  mixed: {path: mixed}\n"
      "  none: {path: nothing/*.csv}\n"
      "  nobody: {path: numbers, filter: label > 100}\n"
      "  typo: {path: numbers, columns: [lable]}\n");
  expect_golden("data_inspect_problems", said({"inspect", "job.yaml", "--rows", "0"}));
}

TEST_F(Data, InspectAsJson) {
  make();
  write_spec("  numbers: {path: numbers/, filter: label < 3}\n");
  const json::object shown =
      said_json({"inspect", "job.yaml", "--json", "--dataset", "numbers", "--rows", "1"});

  EXPECT_EQ(shown.at("rows"), 12);
  EXPECT_EQ(shown.at("rows_before_filter"), 40);
  EXPECT_EQ(shown.at("units"), 4);
  EXPECT_EQ(shown.at("format"), "parquet");
  EXPECT_EQ(
      json::serialize(shown.at("first_rows")),
      R"([{"id":0,"image":"<12 bytes 00 01 02 03 04 05 06 07 …>","label":0,"name":"row 0"}])");
  EXPECT_EQ(json::serialize(shown.at("columns").as_array().at(1)),
            R"({"name":"image","tensor":{"dtype":"uint8","row_shape":[12]},)"
            R"("type":"fixed_size_binary[12]"})");
  EXPECT_EQ(json::serialize(shown.at("problems")), "[]");
}

TEST_F(Data, PlanShowsWhatEachWorkerReads) {
  make("large");
  write_spec(
      "  files: {path: large/, columns: [id, image], split: true, shuffle: {seed: 3, mode: "
      "files}}\n"
      "  kept: {path: large/, columns: [id], split: true, preserve_order: true}\n"
      "  mixed: {path: large/, split: true, shuffle: {seed: 3, window: 1MiB}}\n"
      "  whole: {path: large/}\n");
  expect_golden("data_plan", said({"plan", "job.yaml", "--workers", "3", "--batch-size", "100"}));
}

TEST_F(Data, PlanAsJsonHasTheDigestOfCheckpoints) {
  make();
  write_spec("  numbers: {path: numbers/, split: true}\n");
  const json::object plan = said_json({"plan", "job.yaml", "--json", "--workers", "3"});

  EXPECT_EQ(plan.at("digest").as_string().size(), 16u);
  EXPECT_EQ(plan.at("steps"), 1);
  std::int64_t rows = 0;
  for (const json::value& rank : plan.at("ranks").as_array()) rows += rank.at("rows").as_int64();
  EXPECT_EQ(rows, 40);
}

TEST_F(Data, OfAMixTheWeightsAreShown) {
  write_spec(
      "  a: {format: items, items: [{x: 1}, {x: 2}]}\n"
      "  train: {mix: {a: 2, b: 1}}\n"
      "  b: {format: items, items: [{x: 1}]}\n");
  EXPECT_TRUE(contains(said({"inspect", "job.yaml", "--dataset", "train"}),
                       "dataset train: a mix of 66.7 % a, 33.3 % b\n"));
  EXPECT_TRUE(contains(said({"plan", "job.yaml"}), "dataset train: a mix of"));
  EXPECT_EQ(json::serialize(said_json({"plan", "job.yaml", "--json", "--dataset", "train"})),
            R"({"mix":{"a":2E0,"b":1E0},"name":"train"})");
}

TEST_F(Data, SaysWhatIsWrongWithTheCommand) {
  make();
  write_spec("  numbers: {path: numbers/}\n  text: {path: text/}\n");
  cluster.write("none.yaml", "command: [\"true\"]\nscaling_config: {num_workers: 2}\n");
  cluster.write("wrong.yaml",
                "command: [\"true\"]\nscaling_config: {num_workers: 2}\n"
                "datasets: {numbers: {pth: numbers/}}\n");
  std::string text;
  for (const std::vector<std::string>& words : std::initializer_list<std::vector<std::string>>{
           {"inspect", "job.yaml", "--dataset", "nunbers"},
           {"inspect", "job.yaml", "--dataset", "train"},
           {"inspect", "none.yaml"},
           {"plan", "wrong.yaml"},
           {"plan", "job.yaml", "--workers", "0"}})
    text += said(words) + "\n";
  expect_golden("data_errors", text);
}

}  // namespace
}  // namespace train::e2e
