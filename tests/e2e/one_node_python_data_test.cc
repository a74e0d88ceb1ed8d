// Datasets in Python: views of the reader's memory; each row once through a kill, at another world
// size, and with ingest workers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

constexpr int kRows = 90;

class PythonData : public testing::Test {
 protected:
  void SetUp() override {
    if (tools_python().empty()) GTEST_SKIP() << "the tools' Python is not installed";
    std::string lines;
    for (int id = 0; id < kRows; ++id)
      lines += fmt::format("{{\"id\": {}, \"x\": [{}.5, 1.0]}}\n", id, id);
    cluster.write("rows.jsonl", lines);
    cluster.write("few.jsonl",
                  "{\"id\": 1, \"x\": 0.5}\n{\"id\": 2, \"x\": 1.5}\n{\"id\": 3, \"x\": 2.5}\n"
                  "{\"id\": 4, \"x\": 3.5}\n{\"id\": 5, \"x\": 4.5}\n");
    cluster.write("texts.jsonl",
                  "{\"n\": 1, \"text\": \"one\"}\n{\"n\": null, \"text\": \"zwölf\"}\n"
                  "{\"n\": 3, \"text\": null}\n");
  }
  std::string job(const std::string& name, const std::string& python, int workers,
                  const std::string& config, const std::string& datasets,
                  const std::string& more = "", const std::string& run_config = "") {
    return cluster.job(
        name,
        fmt::format("command: [{}, {}/tests/e2e/programs/python_data_worker.py]\n"
                    "env: {{PYTHONPATH: {}/sdk/python, TRAINRUN_LIBRARY: {}, "
                    "PYTHONDONTWRITEBYTECODE: '1'}}\n"
                    "train_loop_config: {{{}}}\ndatasets: {{{}}}\n{}"
                    "scaling_config: {{num_workers: {}, resources_per_worker: {{CPU: 0}}}}",
                    python, TRAIN_SOURCE_DIR, TRAIN_SOURCE_DIR, LIBTRAINRUN, config, datasets, more,
                    workers),
        run_config);
  }
  std::string rows(const std::string& more = ", shuffle: true") const {
    return fmt::format("train: {{path: {}{}}}", cluster.path("rows.jsonl"), more);
  }
  void expect_success(const std::string& path) {
    Process& run = cluster.train_run({path});
    ASSERT_EQ(run.wait(Seconds(120)), 0) << run.out() << run.err();
  }
  std::string output_of(const std::string& name) const {
    return cluster.read(cluster.run_dir(name) + "/attempts/000/ranks/0000/stdout.log");
  }
  /// Return the ids that the ranks have reported; of attempt 0, those of its first reports only.
  std::multiset<int> ids(const std::string& name, int first_reports = 1000) const {
    std::multiset<int> all;
    for (const auto& line : cluster.metrics(name)) {
      if (line.at("attempt") == 0 && line.at("report_seq").as_int64() > first_reports) continue;
      std::istringstream words(text_of(line.at("metrics").as_object(), "ids"));
      for (int id = 0; words >> id;) all.insert(id);
    }
    return all;
  }
  static std::multiset<int> every_id() {
    std::multiset<int> all;
    for (int id = 0; id < kRows; ++id) all.insert(id);
    return all;
  }

  Cluster cluster;
};

TEST_F(PythonData, EachRowIsReadOnceThroughAKillAndAtAnotherWorldSize) {
  expect_success(job("killed", tools_python(), 2, "mode: ids, batch_size: 10, die_at: 2", rows(),
                     "", "  failure_config: {max_failures: 1}"));
  EXPECT_EQ(cluster.run_json("killed").at("attempts").as_array().size(), 2u);
  EXPECT_EQ(ids("killed", 2), every_id());

  expect_success(job("other", tools_python(), 3, "mode: ids, batch_size: 8", rows(),
                     fmt::format("resume_from_checkpoint: {}/checkpoints/checkpoint_000002\n",
                                 cluster.run_dir("killed"))));
  std::multiset<int> all = ids("other");
  EXPECT_EQ(all.size(), 50u);
  for (const auto& line : cluster.metrics("killed")) {
    if (line.at("attempt") != 0 || line.at("report_seq").as_int64() > 2) continue;
    std::istringstream words(text_of(line.at("metrics").as_object(), "ids"));
    for (int id = 0; words >> id;) all.insert(id);
  }
  EXPECT_EQ(all, every_id());
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonData, IngestWorkersOfAPythonProgramServeTheRanks) {
  expect_success(job(
      "served", tools_python(), 2,
      "mode: ids, batch_size: 10, serving: " + cluster.run_dir("served") + "/events.jsonl", rows(),
      "dataset_config: {train: {ingest_workers: 1, ingest: {resources_per_worker: "
      "{CPU: 0}}}}\n"));

  EXPECT_EQ(ids("served"), every_id());
  const json::object ingest = cluster.run_json("served").at("ingest").as_array().at(0).as_object();
  EXPECT_EQ(ingest.at("workers"), 1);
  EXPECT_EQ(ingest.at("deaths"), 0);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(PythonData, ArraysAreReadOnlyViewsAndArrowHasTheRest) {
  expect_success(
      job("views", tools_python(), 1, "mode: views",
          fmt::format("train: {{path: {}}}, texts: {{path: {}}}, mapped: {{path: {}, map: [mine]}}",
                      cluster.path("few.jsonl"), cluster.path("texts.jsonl"),
                      cluster.path("few.jsonl"))));

  EXPECT_EQ(
      output_of("views"),
      "['id', 'x']\n"
      "[2, 5, 5]\n"
      "[0.5, 1.5, 2.5, 3.5, 4.5]\n"
      "assignment destination is read-only\n"
      "{'id': ['int64', (3,)], 'x': ['float64', (3,)]}\n"
      "[3, 3, 1.0]\n"
      "[[], ['index', 'decode']]\n"
      "[1, 2, 3, 4, 5]\n"
      "[{'n': [1, None], 'text': ['one', 'zwölf']}, {'n': [3], 'text': [None]}]\n"
      "invalid_argument: column 'n' does not fit a tensor: 1 of its values are null (fill or drop "
      "them when the data is made)\n"
      "invalid_argument: dataset 'texts': batch_size is 0 (give at least 1)\n"
      "invalid_argument: iter_batches: unknown format 'pandas' (known: numpy, torch, arrow)\n"
      "not_found: the job has no dataset 'test', only 'mapped', 'texts', 'train' (add it under "
      "`datasets` in the job's YAML)\n"
      "not_found: dataset 'mapped': map 'mine': there is no such map: the program registers none, "
      "and the built-in ones are decode_image, resize, random_crop, center_crop, flip, normalize, "
      "cast, scale, one_hot (correct the name, or call train::register_map(\"mine\", …) before "
      "train::run)\n"
      "invalid_argument: dataset 'train': the epoch is -1 (give at least 0)\n");
}

TEST_F(PythonData, TensorsHaveTheirTypes) {
  if (clients_python().empty()) GTEST_SKIP() << "PyTorch is not installed for Python";
  expect_success(job("tensors", clients_python(), 1, "mode: tensors", rows("")));

  EXPECT_EQ(output_of("tensors"),
            "{'id': ['torch.int64', [90]], 'x': ['torch.float64', [90, 2]]}\n"
            "['torch.float32', 4005.0, 4140.0]\n");
}

TEST_F(PythonData, AProgramMayLeaveWhileAThreadTakesBatches) {
  for (const std::string name : {"one", "two", "three"}) {
    expect_success(job(name, "python3", 1, "mode: leave", rows()));
    EXPECT_EQ(output_of(name), "leaves\n");
  }
}

}  // namespace
}  // namespace train::e2e
