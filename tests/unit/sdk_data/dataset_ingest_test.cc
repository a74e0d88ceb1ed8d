// Datasets whose rows come from ingest workers, through get_dataset_shard(): the same batches as
// without them.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <train/dataset.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lib/data/serve/ingest_server.h"
#include "sdk/data/dataset_shard.h"
#include "sdk/data/ingest_role.h"
#include "sdk/data/map_registry.h"
#include "sdk/data/mapped_parts.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {
namespace {

using testing::HasSubstr;
using Rows = std::shared_ptr<arrow::RecordBatch>;

Dict map_step(const std::string& name, Dict arguments = {}) {
  return {{"name", name}, {"arguments", std::move(arguments)}};
}

class DatasetIngest : public testing::Test {
 protected:
  DatasetIngest() {
    ::chmod(folder_.path().c_str(), 0700);
    become(0, 1);
  }
  ~DatasetIngest() override {
    sdk::forget_dataset_shards();
    sdk::forget_maps();
  }

  void become(int rank, int world_size) {
    sdk::forget_dataset_shards();
    auto& session = fakes::session();
    session = fakes::FakeSession();
    session.info.supervised = true;
    session.info.rank = rank;
    session.info.world_size = world_size;
    session.info.datasets = datasets_;
    session.ingest_roster = roster_;
  }
  void add_numbers(Dict more) {
    data::write_parquet(folder_ / "train.parquet", data::numbered_rows(0, 400), 37);
    more["format"] = "parquet";
    more["path"] = folder_ / "train.parquet";
    more["split"] = true;
    datasets_["train"] = std::move(more);
  }
  /// Make the dataset "train" of these files, in a folder of pictures.
  void add_pictures(const std::vector<std::string>& contents, Dict more) {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const std::string path = folder_ / ("pics/" + std::to_string(100 + i) + "/a.png");
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      std::ofstream(path, std::ios::binary) << contents[i];
    }
    more["format"] = "images";
    more["path"] = folder_ / "pics";
    more["size"] = List{4, 5};
    more["split"] = true;
    datasets_["train"] = std::move(more);
  }
  static std::string picture() {
    std::ifstream file(TRAIN_SOURCE_DIR "/tests/unit/lib_data/pictures/rgb.png", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Start `count` ingest workers for the dataset, in this process, and let it be read by them.
  void serve(int count) {
    auto& train = datasets_["train"];
    for (int i = 0; i < count; ++i) {
      const std::string name = "ingest-train-" + std::to_string(i);
      const std::string socket = folder_ / (name + ".sock");
      served_.push_back(std::move(*sdk::ServedDataset::open("train", train.as<Dict>())));
      servers_.push_back(std::move(*data::IngestServer::start(
          socket,
          [dataset = served_.back().get()](const data::OpenPass& pass) {
            return dataset->open_pass(pass);
          },
          [](const std::string& line) { ADD_FAILURE() << line; })));
      roster_.endpoints.push_back({.name = name, .dataset = "train", .socket = socket});
    }
    ++roster_.version;
    Dict entry = train.as<Dict>();
    entry["ingest_workers"] = count;
    train = std::move(entry);
  }

  /// Read two epochs as each of two ranks.
  std::vector<Batch> batches(const BatchOptions& options = {.batch_size = 24}) {
    std::vector<Batch> all;
    for (int rank = 0; rank < 2; ++rank) {
      become(rank, 2);
      DatasetShard shard = get_dataset_shard("train");
      for (int epoch = 0; epoch < 2; ++epoch)
        for (Batch& batch : shard.iter_batches(options)) all.push_back(std::move(batch));
    }
    return all;
  }
  /// Expect the same batches with ingest workers as without.
  void expect_same(int workers, const BatchOptions& options = {.batch_size = 24}) {
    const std::vector<Batch> plain = batches(options);
    serve(workers);
    const std::vector<Batch> served = batches(options);
    ASSERT_EQ(served.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(served[i].data->Equals(*plain[i].data)) << i << served[i].data->ToString();
      EXPECT_EQ(served[i].valid_rows, plain[i].valid_rows) << i;
    }
    EXPECT_GT(rows_served(), 0);
  }
  std::int64_t rows_served() const {
    std::int64_t rows = 0;
    for (const auto& server : servers_) rows += server->counts().rows;
    return rows;
  }

  data::TestFolder folder_;
  Dict datasets_;
  IngestRoster roster_;
  std::vector<std::unique_ptr<sdk::ServedDataset>> served_;
  std::vector<std::unique_ptr<data::IngestServer>> servers_;
};

/// A map that adds a column of the rows' seeds.
Rows with_seeds(Rows rows, const MapContext& context) {
  arrow::UInt64Builder seeds;
  for (std::int64_t row = 0; row < rows->num_rows(); ++row)
    data::must(seeds.Append(context.row_seed(row)));
  return data::must(rows->AddColumn(rows->num_columns(), "seed", data::must(seeds.Finish())));
}

/// Make id % 3 rows of each row.
FlatMapped times(const Rows& rows, const MapContext&) {
  arrow::RecordBatchVector made{rows->Slice(0, 0)};
  std::vector<std::int64_t> origins;
  const auto ids = data::ids_of(*rows);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::int64_t copy = 0; copy < ids[row] % 3; ++copy) {
      made.push_back(rows->Slice(static_cast<std::int64_t>(row), 1));
      origins.push_back(static_cast<std::int64_t>(row));
    }
  }
  return {data::must(arrow::ConcatenateRecordBatches(made)), origins};
}

TEST_F(DatasetIngest, GivesTheSameMappedRows) {
  register_map("with_seeds", with_seeds);
  add_numbers({{"shuffle", true},
               {"shuffle_seed", 5},
               {"shuffle_window", 2000},
               {"map", List{map_step("with_seeds")}}});
  expect_same(3);
}

TEST_F(DatasetIngest, GivesTheSameRowsInTheOrderOfTheFiles) {
  add_numbers({{"preserve_order", true}});
  expect_same(2);
}

TEST_F(DatasetIngest, GivesTheSameRowsOnTheLoopsThread) {
  add_numbers({{"shuffle", true}});
  expect_same(1, {.batch_size = 24, .prefetch_batches = 0});
}

TEST_F(DatasetIngest, GivesTheSameRowsOfMapsThatChangeHowManyThereAre) {
  register_flat_map("times", times);
  register_map("with_seeds", with_seeds);
  add_numbers({{"shuffle", true},
               {"shuffle_window", 2000},
               {"map", List{map_step("times"), map_step("with_seeds")}}});
  expect_same(3);
}

TEST_F(DatasetIngest, GivesTheSamePreprocessedRows) {
  add_numbers({{"columns", List{"id"}},
               {"shuffle", true},
               {"preprocessors", List{Dict{{"name", "standard_scaler"},
                                           {"arguments", Dict{{"columns", List{"id"}}}}}}}});
  // Both ranks fit on all rows, as one that is alone does.
  const auto fit_alone = [] {
    fakes::session().gather = [](const std::string&, const std::string& mine) {
      return std::vector<std::string>(1, mine);
    };
  };
  become(0, 1);
  fit_alone();
  std::vector<Batch> plain;
  for (Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 24}))
    plain.push_back(std::move(batch));
  serve(2);
  become(0, 1);
  fit_alone();
  std::size_t at = 0;
  for (Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 24}))
    EXPECT_TRUE(batch.data->Equals(*plain.at(at++).data));
  EXPECT_EQ(at, plain.size());
  EXPECT_GT(rows_served(), 0);
}

TEST_F(DatasetIngest, LeavesTheSameBadRowsOutAndCountsThem) {
  std::vector<std::string> files(40, picture());
  for (const std::size_t bad : {3u, 11u, 12u, 13u, 29u}) files[bad] = "no picture";
  add_pictures(files, {{"shuffle", true}, {"skip_rows_max", 10}});
  expect_same(2, {.batch_size = 6});

  become(0, 1);
  DatasetShard shard = get_dataset_shard("train");
  for (const Batch& batch : shard.iter_batches({.batch_size = 6})) (void)batch;
  EXPECT_EQ(shard.impl()->maps->bad_rows(), 5);
}

TEST_F(DatasetIngest, ReadsForItselfWhereThereIsNoRunOrOnlyAValidation) {
  add_numbers({{"shuffle", true}});
  serve(1);
  for (const bool validating : {false, true}) {
    become(0, 1);
    fakes::session().info.supervised = validating;
    fakes::session().info.validating = validating;
    std::int64_t rows = 0;
    for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 24}))
      rows += batch.valid_rows;
    EXPECT_EQ(rows, 400);
  }
  EXPECT_EQ(rows_served(), 0);
}

TEST_F(DatasetIngest, EndsThePassWithTheErrorOfAnIngestWorker) {
  std::vector<std::string> files(8, picture());
  files[5] = "no picture";
  add_pictures(files, {});
  serve(1);
  become(0, 1);
  try {
    for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 2}))
      (void)batch;
    FAIL() << "no failure";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("pics/105/a.png"));
  }
}

TEST_F(DatasetIngest, CountsWhatItsOperatorsDoThere) {
  register_map("with_seeds", with_seeds);
  add_numbers({{"shuffle", true}, {"map", List{map_step("with_seeds")}}});
  serve(2);
  become(0, 1);
  DatasetShard shard = get_dataset_shard("train");
  for (const Batch& batch : shard.iter_batches({.batch_size = 50})) (void)batch;

  for (const OperatorStats& one : shard.stats().operators) {
    if (one.name == "map with_seeds") EXPECT_EQ(one.rows, 400);
    if (one.name == "decode") EXPECT_GE(one.rows, 400);
    if (one.name == "loop") EXPECT_EQ(one.rows, 400);
  }
}

TEST_F(DatasetIngest, RefusesARankWithOtherPreprocessors) {
  add_numbers({});
  serve(1);
  const auto refused = served_.front()->open_pass(
      {.dataset = "train",
       .batch_sizes = {1},
       .preprocessors = R"([{"name": "max_abs_scaler", "arguments": {"columns": ["id"]},
                            "columns": {"id": {"offset": 0, "scale": 1}}}])"});
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ((served_.front()->open_pass({.dataset = "valid", .batch_sizes = {1}})).error().code,
            Errc::NotFound);
}

TEST_F(DatasetIngest, IsServedByARoleUntilItIsToldToEnd) {
  add_numbers({{"shuffle", true}});
  const std::string socket = folder_ / "role.sock";
  become(0, 1);
  fakes::session().info.ingest = {
      .name = "ingest-train-0000", .dataset = "train", .socket = socket};
  std::mutex mutex;
  std::condition_variable changed;
  bool is_up = false;
  std::atomic<bool> ends = false;
  std::atomic<std::int64_t> rows = 0;
  const sdk::IngestService service{
      .role = fakes::session().info.ingest,
      .up =
          [&](const std::string&) {
            const std::lock_guard lock(mutex);
            is_up = true;
            changed.notify_all();
          },
      .busy = [&](const sdk::IngestFigures& figures) { rows = figures.rows; },
      .should_stop = [&] { return ends.load(); }};
  int code = -1;
  std::thread role([&] { code = sdk::serve_dataset(service); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_up; });
  }
  roster_ = {1, {{.name = "ingest-train-0000", .dataset = "train", .socket = socket}}};
  Dict entry = datasets_["train"].as<Dict>();
  entry["ingest_workers"] = 1;
  datasets_["train"] = std::move(entry);
  fakes::session().info.datasets = datasets_;
  fakes::session().ingest_roster = roster_;
  std::int64_t read = 0;
  for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 50}))
    read += batch.valid_rows;
  ends = true;
  role.join();

  EXPECT_EQ(read, 400);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(rows, 400);
}

}  // namespace
}  // namespace train
