// The C face of datasets: <train/train_data_c.h>.
#include <arrow/array.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/error.h>
// After Arrow, which has the structs of its C data interface itself.
#include <train/train_data_c.h>

#include <memory>

#include "sdk/data/dataset_shard.h"
#include "sdk/data/face/serve_ingest.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {

int sdk::serve_datasets() { return 3; }

namespace {

using data::must;
using testing::ElementsAre;
using testing::HasSubstr;

struct Free {
  void operator()(trainrun_dataset* dataset) const { trainrun_dataset_free(dataset); }
  void operator()(trainrun_batches* batches) const { trainrun_batches_free(batches); }
  void operator()(trainrun_batch* batch) const { trainrun_batch_free(batch); }
};
using Dataset = std::unique_ptr<trainrun_dataset, Free>;
using Batches = std::unique_ptr<trainrun_batches, Free>;
using BatchOf = std::unique_ptr<trainrun_batch, Free>;

std::string said() {
  return std::string(trainrun_data_last_error_kind()) + ": " + trainrun_data_last_error();
}

class DataFaceTest : public testing::Test {
 protected:
  DataFaceTest() {
    sdk::forget_dataset_shards();
    fakes::session() = fakes::FakeSession();
    data::write_parquet(folder_ / "rows.parquet", data::numbered_rows(0, 25), 10);
    add("train", {{"columns", List{"id", "pixels"}}});
    add("texts", {});
  }
  ~DataFaceTest() override { sdk::forget_dataset_shards(); }

  void add(const std::string& name, Dict spec) {
    spec["format"] = "parquet";
    spec["path"] = folder_ / "rows.parquet";
    fakes::session().info.datasets[name] = std::move(spec);
  }
  static Dataset open(const char* name = "train") {
    trainrun_dataset* dataset = nullptr;
    EXPECT_EQ(trainrun_dataset_open(name, &dataset), TRAINRUN_OK) << said();
    return Dataset(dataset);
  }
  static trainrun_batch_options options(std::int64_t batch_size) {
    return {sizeof(trainrun_batch_options), batch_size, 1, 0, 2, 32 << 20};
  }
  static Batches pass(const Dataset& dataset, std::int64_t batch_size) {
    trainrun_batches* batches = nullptr;
    const auto wanted = options(batch_size);
    EXPECT_EQ(trainrun_dataset_iter_batches(dataset.get(), &wanted, &batches), TRAINRUN_OK)
        << said();
    return Batches(batches);
  }
  static BatchOf next(const Batches& batches) {
    trainrun_batch* batch = nullptr;
    EXPECT_EQ(trainrun_batches_next(batches.get(), &batch), TRAINRUN_OK) << said();
    return BatchOf(batch);
  }

  data::TestFolder folder_;
};

TEST_F(DataFaceTest, AColumnIsAViewThatLivesAsLongAsItsBatch) {
  const Dataset dataset = open();
  Batches batches = pass(dataset, 10);
  BatchOf batch = next(batches);
  for (int i = 0; i < 2; ++i) next(batches);
  EXPECT_EQ(next(batches), nullptr);
  EXPECT_EQ(next(batches), nullptr);
  batches.reset();

  const trainrun_column* columns = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(trainrun_batch_columns(batch.get(), &columns, &count), TRAINRUN_OK) << said();

  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(columns[0].name, "id");
  EXPECT_STREQ(columns[0].type, "int64");
  ASSERT_EQ(columns[0].dimensions, 1u);
  EXPECT_EQ(columns[0].shape[0], 10);
  EXPECT_EQ(static_cast<const std::int64_t*>(columns[0].data)[9], 9);
  EXPECT_STREQ(columns[1].type, "uint8");
  ASSERT_EQ(columns[1].dimensions, 2u);
  EXPECT_EQ(columns[1].shape[1], 4);
  EXPECT_EQ(static_cast<const std::uint8_t*>(columns[1].data)[39], 9);
  EXPECT_EQ(trainrun_batch_rows(batch.get()), 10);
  EXPECT_EQ(trainrun_batch_valid_rows(batch.get()), 10);
  EXPECT_EQ(trainrun_batch_weight(batch.get()), 1);
}

TEST_F(DataFaceTest, AColumnIsNoCopy) {
  const Dataset dataset = open();
  const Batches batches = pass(dataset, 10);
  const BatchOf batch = next(batches);
  const trainrun_column* columns = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(trainrun_batch_columns(batch.get(), &columns, &count), TRAINRUN_OK) << said();
  ArrowSchema schema;
  ArrowArray array;
  ASSERT_EQ(trainrun_batch_export(batch.get(), &schema, &array), TRAINRUN_OK) << said();

  const auto rows = must(arrow::ImportRecordBatch(&array, &schema));

  EXPECT_EQ(columns[0].data, static_cast<const arrow::Int64Array&>(*rows->column(0)).raw_values());
}

TEST_F(DataFaceTest, APassTellsItsPositionAndHasASize) {
  const Dataset dataset = open();
  EXPECT_EQ(trainrun_dataset_rows(dataset.get()), 25);
  EXPECT_EQ(trainrun_dataset_total_rows(dataset.get()), 25);
  ASSERT_EQ(trainrun_dataset_set_epoch(dataset.get(), 4), TRAINRUN_OK);

  const Batches batches = pass(dataset, 10);

  EXPECT_EQ(trainrun_batches_size(batches.get()), 3);
  next(batches);
  next(batches);
  EXPECT_EQ(fakes::session().last_position(), (fakes::Position{"train", 4, 20}));
  const char* stats = nullptr;
  ASSERT_EQ(trainrun_dataset_stats(dataset.get(), &stats), TRAINRUN_OK);
  EXPECT_THAT(stats, HasSubstr(R"("name":"decode")"));
}

TEST_F(DataFaceTest, ABatchOfAnyTypesGoesToArrowAndOutlivesAll) {
  Dataset dataset = open("texts");
  Batches batches = pass(dataset, 10);
  BatchOf batch = next(batches);
  ArrowSchema schema, wanted;
  ArrowArray array;

  ASSERT_EQ(trainrun_dataset_schema(dataset.get(), &wanted), TRAINRUN_OK) << said();
  ASSERT_EQ(trainrun_batch_export(batch.get(), &schema, &array), TRAINRUN_OK) << said();
  batch.reset();
  batches.reset();
  dataset.reset();

  const auto rows = must(arrow::ImportRecordBatch(&array, &schema));
  EXPECT_EQ(static_cast<const arrow::StringArray&>(*rows->column(1)).GetString(9), "row 9");
  EXPECT_TRUE(rows->schema()->Equals(must(arrow::ImportSchema(&wanted))));
}

TEST_F(DataFaceTest, WhatNoTensorHasIsRefused) {
  const Dataset dataset = open("texts");
  const Batches batches = pass(dataset, 10);
  const BatchOf batch = next(batches);
  const trainrun_column* columns = nullptr;
  std::size_t count = 0;

  EXPECT_EQ(trainrun_batch_columns(batch.get(), &columns, &count), TRAINRUN_FAILED);

  EXPECT_EQ(said(),
            "invalid_argument: column 'name' does not fit a tensor: its type is string (leave it "
            "out with `columns` of the dataset, or read it with iter_batches)");
}

TEST_F(DataFaceTest, SaysWhatFailed) {
  trainrun_dataset* dataset = nullptr;
  EXPECT_EQ(trainrun_dataset_open("valid", &dataset), TRAINRUN_FAILED);
  EXPECT_THAT(said(), HasSubstr("not_found: the job has no dataset 'valid'"));
  EXPECT_EQ(trainrun_dataset_open(nullptr, &dataset), TRAINRUN_FAILED);
  EXPECT_EQ(said(), "invalid_argument: name is NULL");
  EXPECT_EQ(trainrun_dataset_rows(nullptr), -1);
  EXPECT_EQ(said(), "invalid_argument: dataset is NULL");

  const Dataset train = open();
  trainrun_batches* batches = nullptr;
  auto wanted = options(0);
  EXPECT_EQ(trainrun_dataset_iter_batches(train.get(), &wanted, &batches), TRAINRUN_FAILED);
  EXPECT_EQ(said(), "invalid_argument: dataset 'train': batch_size is 0 (give at least 1)");
  wanted.size = 8;
  EXPECT_EQ(trainrun_dataset_iter_batches(train.get(), &wanted, &batches), TRAINRUN_FAILED);
  EXPECT_THAT(said(), HasSubstr("another version"));
  EXPECT_EQ(batches, nullptr);
}

TEST_F(DataFaceTest, AStopIsNoFailure) {
  add("shared", {{"split", true}});
  fakes::session().info.world_size = 2;
  fakes::session().gather = [](const std::string&, const std::string&) -> std::vector<std::string> {
    throw Stopped("Ctrl-C");
  };
  const Dataset dataset = open("shared");
  trainrun_batches* batches = nullptr;

  EXPECT_EQ(trainrun_dataset_iter_batches(dataset.get(), nullptr, &batches), TRAINRUN_STOPPED);

  EXPECT_EQ(said(), "stopped: Ctrl-C");
}

TEST_F(DataFaceTest, ServesDatasets) {
  int code = 0;
  EXPECT_EQ(trainrun_data_serve(&code), TRAINRUN_OK);
  EXPECT_EQ(code, 3);
}

}  // namespace
}  // namespace train
