#include "lib/data/batch_reader.h"

#include <arrow/compute/initialize.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "lib/data/dataset_files.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;

/// Counts how often each group is decoded.
class CountingSource final : public RowSource {
 public:
  explicit CountingSource(std::unique_ptr<RowSource> inner)
      : reads(inner->group_rows().size()), inner_(std::move(inner)) {}
  const std::vector<std::int64_t>& group_rows() const override { return inner_->group_rows(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return inner_->schema(); }
  Result<std::shared_ptr<arrow::RecordBatch>> read(std::int64_t group) const override {
    ++reads[static_cast<std::size_t>(group)];
    return inner_->read(group);
  }
  mutable std::vector<int> reads;

 private:
  std::unique_ptr<RowSource> inner_;
};

class BatchReaderTest : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  std::shared_ptr<CountingSource> source_of(std::int64_t rows, std::int64_t rows_per_group) {
    write_parquet(folder_ / "1.parquet", numbered_rows(0, rows / 2), rows_per_group);
    write_parquet(folder_ / "2.parquet", numbered_rows(rows / 2, rows - rows / 2), rows_per_group);
    return std::make_shared<CountingSource>(std::move(*open_files({.paths = {folder_.path()}})));
  }

  static BatchReader reader_of(const std::shared_ptr<CountingSource>& source, PlanInput input) {
    input.group_rows = source->group_rows();
    return BatchReader(source, *ShardPlan::make(input));
  }

  TestFolder folder_;
};

TEST_F(BatchReaderTest, GathersRowsAcrossGroupsAndFiles) {
  BatchReader reader = reader_of(source_of(10, 2), {.batch_sizes = {4}});

  const ReadBatch second = *reader.read(1);

  EXPECT_THAT(ids_of(*second.rows), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(second.valid_rows, 4);
  EXPECT_EQ(second.rows_consumed, 8);
  EXPECT_THAT(ids_of(*reader.read(2)->rows), ElementsAre(8, 9));
}

TEST_F(BatchReaderTest, GivesABatchAgain) {
  BatchReader reader = reader_of(source_of(10, 2), {.batch_sizes = {4}});

  for (const int again : {0, 1})
    EXPECT_THAT(ids_of(*reader.read(0)->rows), ElementsAre(0, 1, 2, 3)) << again;
}

TEST_F(BatchReaderTest, KeepsRowsWholeWhenItShuffles) {
  const auto source = source_of(300, 10);
  BatchReader reader = reader_of(source, {.batch_sizes = {32}, .shuffle = true, .seed = 3});

  std::vector<std::int64_t> seen;
  for (std::int64_t step = 0; step < 10; ++step) {
    const ReadBatch batch = *reader.read(step);
    const auto ids = ids_of(*batch.rows);
    const auto& names =
        static_cast<const arrow::StringArray&>(*batch.rows->GetColumnByName("name"));
    const auto& pixels =
        static_cast<const arrow::FixedSizeListArray&>(*batch.rows->GetColumnByName("pixels"));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      ASSERT_EQ(names.GetString(row), "row " + std::to_string(ids[i]));
      const auto first =
          static_cast<const arrow::UInt8Array&>(*pixels.values()).Value(pixels.value_offset(row));
      ASSERT_EQ(first, ids[i] % 256);
    }
    seen.insert(seen.end(), ids.begin(), ids.end());
  }
  std::sort(seen.begin(), seen.end());
  std::vector<std::int64_t> all(300);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
  // Each group once, or twice if the end of a lane shares it with the beginning of the next.
  EXPECT_EQ(std::accumulate(source->reads.begin(), source->reads.end(), 0), 30 + kOpenGroups - 1);
}

TEST_F(BatchReaderTest, ReadsTheOrderOfThePlan) {
  const PlanInput input{.batch_sizes = {64}, .shuffle = true, .seed = 9};
  const auto source = source_of(64, 8);
  BatchReader reader = reader_of(source, input);
  PlanInput whole = input;
  whole.group_rows = source->group_rows();

  std::vector<std::int64_t> planned;
  for (const RowRange& range : ShardPlan::make(whole)->batch(0).ranges) {
    for (std::int64_t row = 0; row < range.count; ++row)
      planned.push_back(range.group * 8 + range.first + row);
  }

  EXPECT_EQ(ids_of(*reader.read(0)->rows), planned);
}

TEST_F(BatchReaderTest, DecodesASequentialGroupOnce) {
  const auto source = source_of(20, 5);
  BatchReader reader = reader_of(source, {.batch_sizes = {3}});

  for (std::int64_t step = 0; step < 7; ++step) ASSERT_TRUE(reader.read(step).has_value());

  EXPECT_THAT(source->reads, ElementsAre(1, 1, 1, 1));
}

TEST_F(BatchReaderTest, RepeatsRowsAfterTheValidOnes) {
  BatchReader reader = reader_of(source_of(4, 4), {.batch_sizes = {2, 2, 2}, .rank = 2});

  const ReadBatch batch = *reader.read(0);

  EXPECT_THAT(ids_of(*batch.rows), ElementsAre(3, 3));
  EXPECT_EQ(batch.valid_rows, 1);
}

}  // namespace
}  // namespace train::data
