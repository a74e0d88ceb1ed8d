// Datasets in object stores: real servers, real workers, and faults between them. What is read, and
// at which step, is what an undisturbed run reads from local files.
#include <arrow/adapters/orc/adapter.h>
#include <arrow/builder.h>
#include <arrow/io/compressed.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/util/compression.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "lib/storage/object_store.h"
#include "tests/e2e/object_server.h"

namespace train::e2e {
namespace {

constexpr int kRows = 10'000;
constexpr int kGlobalBatch = 96;
using Ids = std::vector<std::int64_t>;
using Steps = std::map<std::pair<int, int>, Ids>;  // (epoch, step) → ids of all ranks, sorted

std::string text_of_row(int id) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += fmt::format("{:08}", id);
  return text;
}

/// Return rows with x = first, first + 1, … and 400 bytes of text.
std::shared_ptr<arrow::Table> numbered(int first, int count) {
  arrow::Int64Builder ids;
  arrow::StringBuilder texts;
  for (int id = first; id < first + count; ++id) {
    EXPECT_TRUE(ids.Append(id).ok());
    EXPECT_TRUE(texts.Append(text_of_row(id)).ok());
  }
  return arrow::Table::Make(
      arrow::schema({arrow::field("x", arrow::int64()), arrow::field("text", arrow::utf8())}),
      {ids.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
}

template <class Write>
std::string written(const Write& write) {
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const arrow::Status status = write(out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out->Finish().ValueOrDie()->ToString();
}

std::string as_parquet(const std::shared_ptr<arrow::Table>& table, int rows_per_group) {
  return written([&](const auto& out) {
    return parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, rows_per_group);
  });
}

std::string compressed(const std::string& text) {
  const auto codec = arrow::util::Codec::Create(arrow::Compression::GZIP).ValueOrDie();
  arrow::util::Codec* const gzip = codec.get();
  return written([&](const auto& out) -> arrow::Status {
    const auto stream = arrow::io::CompressedOutputStream::Make(gzip, out).ValueOrDie();
    ARROW_RETURN_NOT_OK(stream->Write(text));
    return stream->Close();
  });
}

std::string as_arrow(const std::shared_ptr<arrow::Table>& table) {
  return written([&](const auto& out) -> arrow::Status {
    const auto writer = arrow::ipc::MakeFileWriter(out, table->schema()).ValueOrDie();
    ARROW_RETURN_NOT_OK(writer->WriteTable(*table, 50));
    return writer->Close();
  });
}

std::string as_orc(const std::shared_ptr<arrow::Table>& table) {
  return written([&](const auto& out) -> arrow::Status {
    const auto writer = arrow::adapters::orc::ORCFileWriter::Open(out.get()).ValueOrDie();
    ARROW_RETURN_NOT_OK(writer->Write(*table));
    return writer->Close();
  });
}

std::string as_numpy(int rows) {
  std::string header =
      fmt::format("{{'descr': '<i8', 'fortran_order': False, 'shape': ({},), }}", rows);
  header.resize(117, ' ');
  std::string bytes = "\x93NUMPY" + std::string("\x01\x00\x76\x00", 4) + header + "\n";
  for (std::int64_t value = 0; value < rows; ++value)
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

class ObjectData : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    if (!server.available()) GTEST_SKIP() << "SKIPPED: no server is installed";
    auto opened = open_object_store(server.location("data"), {.environment = server.environment()});
    ASSERT_TRUE(opened) << opened.error().describe();
    store = *opened;
  }
  void TearDown() override { store.reset(); }

  /// Put the bytes under the key, and into a local file of the same name.
  void put(const std::string& key, const std::string& bytes) {
    const auto done = store->put(key, bytes);
    ASSERT_TRUE(done) << done.error().describe();
    std::filesystem::create_directories(
        std::filesystem::path(cluster.path("local/" + key)).parent_path());
    cluster.write("local/" + key, bytes);
  }
  void put_numbered_parquet() {
    for (int file = 0; file < 5; ++file)
      put(fmt::format("train/{}.parquet", file),
          as_parquet(numbered(file * kRows / 5, kRows / 5), 300));
  }

  std::string job(const std::string& name, int workers, const std::string& config,
                  const std::string& datasets, const std::string& more = "",
                  const std::string& run_config = "") const {
    return cluster.job(
        name,
        fmt::format("command: [{}]\ntrain_loop_config: {{{}}}\n"
                    "scaling_config: {{num_workers: {}, resources_per_worker: {{CPU: 0}}}}\n"
                    "datasets:\n{}\n{}",
                    program("audit_worker"), config, workers, datasets, more),
        run_config);
  }
  StartOptions access() const {
    StartOptions options;
    options.env = server.environment();
    return options;
  }
  void run(const std::string& job_file, int code = 0) {
    Process& process = cluster.train_run({job_file}, access());
    EXPECT_EQ(process.wait(), code) << process.out() << process.err();
  }
  std::string audit(const std::string& log) const {
    return fmt::format("global_batch: {}, epochs: 2, log: '{}'", kGlobalBatch, cluster.path(log));
  }
  std::string train_set(const std::string& path) const {
    return fmt::format("  train: {{path: '{}', shuffle: {{seed: 3, window: 1MiB}}, split: true}}",
                       path);
  }
  /// Return what all ranks had in each step. A step that was made again must have the same rows.
  Steps steps_in(const std::string& log) const {
    std::map<int, Steps> of_ranks;
    Steps all;
    for (int rank = 0; rank < 3; ++rank) {
      std::istringstream lines(cluster.read(cluster.path(log + "-" + std::to_string(rank))));
      for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        int epoch = 0, step = 0;
        words >> epoch >> step;
        const Ids ids{std::istream_iterator<std::int64_t>(words), {}};
        const auto [known, is_new] = of_ranks[rank].try_emplace({epoch, step}, ids);
        EXPECT_EQ(known->second, ids) << "rank " << rank << ", step " << step;
        if (is_new) all[{epoch, step}].insert(all[{epoch, step}].end(), ids.begin(), ids.end());
      }
    }
    for (auto& [step, ids] : all) std::sort(ids.begin(), ids.end());
    return all;
  }
  /// Return the steps of a run that reads the local files, without any trouble.
  Steps undisturbed() {
    run(job("local", 1, audit("local.log"), train_set(cluster.path("local/train"))));
    return steps_in("local.log");
  }
  static void expect_each_row_once(const Steps& steps) {
    std::map<int, Ids> of_epoch;
    for (const auto& [step, ids] : steps)
      of_epoch[step.first].insert(of_epoch[step.first].end(), ids.begin(), ids.end());
    EXPECT_EQ(of_epoch.size(), 2u);
    Ids expected(kRows);
    std::iota(expected.begin(), expected.end(), 0);
    for (auto& [epoch, ids] : of_epoch) {
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(ids, expected) << "epoch " << epoch;
    }
  }

  Cluster cluster;
  ObjectServer server{cluster, GetParam()};
  std::shared_ptr<ObjectStore> store;
};

class FaultyObjectData : public ObjectData {};
class S3Data : public ObjectData {};

const auto kNamed = [](const auto& kind) { return name_of(kind.param); };
INSTANTIATE_TEST_SUITE_P(, ObjectData,
                         ::testing::Values(StoreKind::S3, StoreKind::Gcs, StoreKind::Hdfs), kNamed);
INSTANTIATE_TEST_SUITE_P(, FaultyObjectData, ::testing::Values(StoreKind::S3, StoreKind::Gcs),
                         kNamed);
INSTANTIATE_TEST_SUITE_P(, S3Data, ::testing::Values(StoreKind::S3), kNamed);

TEST_P(ObjectData, ThreeWorkersAndThenOneHaveTheRowsOfAnUndisturbedRun) {
  put_numbered_parquet();
  const std::string data = train_set(server.location("data/train/"));
  run(job("first", 3, audit("remote.log") + ", steps: 40", data));
  run(job("second", 1, audit("remote.log"), data,
          fmt::format("resume_from_checkpoint: {}/checkpoints/checkpoint_000040\n",
                      cluster.run_dir("first"))));

  const Steps steps = steps_in("remote.log");
  expect_each_row_once(steps);
  EXPECT_EQ(steps, undisturbed());
}

TEST_P(ObjectData, EachFormatIsReadByThreeWorkers) {
  constexpr int kFew = 200;
  const auto table = numbered(0, kFew);
  std::string csv = "x,text\n", json, cifar;
  for (int row = 0; row < kFew; ++row) {
    csv += fmt::format("{},t\n", row);
    json += fmt::format("{{\"x\": {}}}\n", row);
    cifar += static_cast<char>(row) + std::string(3072, 'i');
  }
  for (int row = 0; row < 100; ++row)
    put(fmt::format("pics/{:02}/a.png", row), fmt::format("no picture {}", row));
  put("csv/{a}.csv", csv);
  put("gz/a.csv.gz", compressed(csv));
  put("json/a.jsonl", json);
  put("arrow/a.arrow", as_arrow(table));
  put("orc/a.orc", as_orc(table));
  put("numpy/a.npy", as_numpy(kFew));
  put("cifar/a.bin", cifar);
  put("parquet/0.parquet", as_parquet(numbered(0, 120), 50));
  put("parquet/1.parquet", as_parquet(numbered(120, 80), 50));
  std::string sets, datasets;
  const auto add = [&](const std::string& name, const std::string& path, const std::string& more) {
    sets += (sets.empty() ? "" : ", ") + name;
    datasets += fmt::format("  {}: {{path: '{}', split: true{}}}\n", name,
                            server.location("data/" + path), more);
  };
  for (const char* name : {"csv", "gz", "json", "arrow", "orc"}) add(name, name, "");
  add("parquet", "parquet/{0..1}.parquet", ", shuffle: true");
  add("numpy", "numpy/*.npy", ", map: [{rename: {from: data}}]");
  add("cifar", "cifar/",
      ", format: cifar, map: [{cast: {column: label, type: int64}}, {rename: {from: label}}]");
  add("pics", "pics/*/a.png", ", format: images, shuffle: true, map: [{rename: {from: label}}]");

  run(job("job", 3, "sets: [" + sets + "]", datasets));

  std::map<std::string, Ids> rows;
  const boost::json::object run_json = cluster.run_json("job");
  for (const auto& result : run_json.at("results").as_array())
    for (const auto& [name, of_set] : result.as_object())
      for (const auto& id : of_set.as_array()) rows[name].push_back(id.to_number<std::int64_t>());
  EXPECT_EQ(rows.size(), 9u);
  for (auto& [name, ids] : rows) {
    std::sort(ids.begin(), ids.end());
    Ids expected(name == "pics" ? 100 : kFew);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(ids, expected) << name;
  }
}

TEST_P(FaultyObjectData, AServerInTroubleAndAKilledWorkerChangeNothing) {
  put_numbered_parquet();
  server.faults(R"([{"match": "^GET .*parquet", "action": "503", "times": 3},
                    {"match": "^GET .*2.parquet", "action": "reset", "times": 2},
                    {"match": "^GET .*3.parquet", "action": "cut", "times": 2},
                    {"match": "^GET .*4.parquet", "action": "short", "times": 2},
                    {"match": "^GET .*prefix=", "action": "503", "times": 1}])");

  run(job("job", 3, audit("remote.log") + ", die_at: 50", train_set(server.location("data/train")),
          "", "  failure_config: {max_failures: 1}"));

  const Steps steps = steps_in("remote.log");
  expect_each_row_once(steps);
  EXPECT_EQ(steps, undisturbed());
  for (const char* fault : {" 503\n", " reset\n"})
    EXPECT_TRUE(contains(server.requests(), fault)) << fault;
}

TEST_P(ObjectData, AnObjectThatWasReplacedIsNoticedAtResume) {
  put_numbered_parquet();
  const std::string data = train_set(server.location("data/train/"));
  run(job("first", 1, audit("remote.log") + ", steps: 5", data));
  const std::string before = (*store->status("train/2.parquet"))->version;
  std::string other = as_parquet(numbered(2 * kRows / 5, kRows / 5), 300);
  const std::string text = text_of_row(2 * kRows / 5);
  for (std::size_t at = other.find(text); at != std::string::npos; at = other.find(text, at))
    other[at] = 'x';
  ASSERT_TRUE(wait_until([&] {  // HDFS tells milliseconds apart
    return store->put("train/2.parquet", other) &&
           (*store->status("train/2.parquet"))->version != before;
  }));
  const std::string again =
      job("second", 1, audit("remote.log"), data,
          fmt::format("resume_from_checkpoint: {}/checkpoints/checkpoint_000005\n",
                      cluster.run_dir("first")));
  Process& process = cluster.train_run({again}, access());

  EXPECT_NE(process.wait(), 0);
  EXPECT_TRUE(
      contains(process.out() + process.err(), "2.parquet (replaced by another of the same size)"))
      << process.out() << process.err();
}

TEST_P(S3Data, WhatCannotBeReadSaysWhyAndWhatToDo) {
  const auto said = [&](const std::string& path) {
    Process& process =
        cluster.train_run({job("job", 1, audit("remote.log"), train_set(path))}, access());
    EXPECT_NE(process.wait(), 0);
    std::filesystem::remove_all(cluster.run_dir("job"));
    return process.out() + process.err();
  };
  const auto expect_all = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  };

  expect_all(said("s3://missing/train/"),
             {"dataset 'train'", "s3://missing/train/", "The specified bucket does not exist",
              "AWS_ENDPOINT_URL"});
  expect_all(said("s3://bucket/none/"), {"dataset 'train'", "s3://bucket/none/ does not exist"});
  put_numbered_parquet();
  server.faults(R"([{"match": "^GET", "action": "403"}])");
  const std::string refused = said("s3://bucket/data/train/");
  expect_all(refused, {"dataset 'train'", "s3://bucket/data/train/",
                       "The key does not exist in our records", "AWS_ACCESS_KEY_ID"});
  EXPECT_FALSE(contains(refused, "not+a/secret"));
}

}  // namespace
}  // namespace train::e2e
