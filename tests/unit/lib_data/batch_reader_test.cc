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

/// Counts how often each unit is opened.
class CountingSource final : public RowSource {
 public:
  explicit CountingSource(std::unique_ptr<RowSource> inner)
      : reads(inner->unit_rows().size()), inner_(std::move(inner)) {}
  const std::vector<std::int64_t>& unit_rows() const override { return inner_->unit_rows(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return inner_->schema(); }
  const std::vector<FileRows>& files() const override { return inner_->files(); }
  std::int64_t decoded_bytes() const override { return inner_->decoded_bytes(); }
  Result<std::unique_ptr<UnitStream>> open(std::int64_t unit,
                                           std::int64_t rows_at_once) const override {
    ++reads[static_cast<std::size_t>(unit)];
    return inner_->open(unit, rows_at_once);
  }
  bool reads_rows() const override { return inner_->reads_rows(); }
  Result<std::shared_ptr<arrow::RecordBatch>> read_rows(
      std::int64_t unit, const std::vector<std::int64_t>& rows) const override {
    return inner_->read_rows(unit, rows);
  }
  mutable std::vector<int> reads;

 private:
  std::unique_ptr<RowSource> inner_;
};

/// Cuts what it decodes into pieces of one to three rows.
class PiecewiseSource final : public RowSource {
 public:
  explicit PiecewiseSource(std::shared_ptr<const RowSource> inner) : inner_(std::move(inner)) {}
  const std::vector<std::int64_t>& unit_rows() const override { return inner_->unit_rows(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return inner_->schema(); }
  const std::vector<FileRows>& files() const override { return inner_->files(); }
  std::int64_t decoded_bytes() const override { return inner_->decoded_bytes(); }
  Result<std::unique_ptr<UnitStream>> open(std::int64_t unit,
                                           std::int64_t rows_at_once) const override {
    TRY(auto stream, inner_->open(unit, rows_at_once));
    return std::make_unique<Stream>(std::move(stream));
  }

 private:
  class Stream final : public UnitStream {
   public:
    explicit Stream(std::unique_ptr<UnitStream> inner) : inner_(std::move(inner)) {}
    Result<arrow::RecordBatchVector> pieces(std::int64_t rows) override {
      TRY(const auto all, inner_->next(rows));
      arrow::RecordBatchVector cut;
      for (std::int64_t first = 0; first < rows; first += cut.back()->num_rows())
        cut.push_back(all->Slice(first, 1 + static_cast<std::int64_t>(cut.size() % 3)));
      return cut;
    }

   private:
    std::unique_ptr<UnitStream> inner_;
  };
  std::shared_ptr<const RowSource> inner_;
};

class BatchReaderTest : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  std::shared_ptr<CountingSource> source_of(std::int64_t rows, std::int64_t rows_per_group) {
    write_parquet(folder_ / "1.parquet", numbered_rows(0, rows / 2), rows_per_group);
    write_parquet(folder_ / "2.parquet", numbered_rows(rows / 2, rows - rows / 2), rows_per_group);
    return std::make_shared<CountingSource>(std::move(*open_files({.paths = {folder_.path()}})));
  }

  /// Expect that each row has the values that numbered_rows() gave it.
  static void expect_whole_rows(const arrow::RecordBatch& rows) {
    const auto ids = ids_of(rows);
    const auto& names = static_cast<const arrow::StringArray&>(*rows.GetColumnByName("name"));
    const auto& pixels =
        static_cast<const arrow::FixedSizeListArray&>(*rows.GetColumnByName("pixels"));
    const auto& values = static_cast<const arrow::UInt8Array&>(*pixels.values());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      ASSERT_EQ(names.GetString(row), "row " + std::to_string(ids[i]));
      ASSERT_EQ(values.Value(pixels.value_offset(row)), ids[i] % 256);
    }
  }

  static BatchReader reader_of(const std::shared_ptr<CountingSource>& source, PlanInput input) {
    input.layout.unit_rows = source->unit_rows();
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
  for (const OrderSpec& order :
       {OrderSpec{.shuffle = Shuffle::Window, .seed = 3, .lanes = 8},
        OrderSpec{.shuffle = Shuffle::Window, .seed = 3, .lanes = 8, .block_rows = 4},
        OrderSpec{.shuffle = Shuffle::Rows, .seed = 3}, OrderSpec{.lanes = 3, .block_rows = 7}}) {
    BatchReader reader = reader_of(source, {.batch_sizes = {32}, .order = order});
    std::vector<std::int64_t> seen;
    for (std::int64_t step = 0; step < 10; ++step) {
      const ReadBatch batch = *reader.read(step);
      expect_whole_rows(*batch.rows);
      const auto ids = ids_of(*batch.rows);
      seen.insert(seen.end(), ids.begin(), ids.end());
    }
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> all(300);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
  }
}

TEST_F(BatchReaderTest, GivesTheSameRowsInWhateverPiecesTheyAreDecoded) {
  const auto source = source_of(300, 10);
  const auto in_pieces = std::make_shared<PiecewiseSource>(source);
  for (const OrderSpec& order :
       {OrderSpec{.shuffle = Shuffle::Window, .seed = 3, .lanes = 8, .block_rows = 6},
        OrderSpec{.shuffle = Shuffle::Rows, .seed = 3}, OrderSpec{}}) {
    PlanInput input{.batch_sizes = {32}, .order = order};
    input.layout.unit_rows = source->unit_rows();
    BatchReader whole(source, *ShardPlan::make(input));
    BatchReader piecewise(in_pieces, *ShardPlan::make(input));
    for (std::int64_t step = 0; step < 10; ++step) {
      const ReadBatch batch = *piecewise.read(step);
      expect_whole_rows(*batch.rows);
      ASSERT_TRUE(batch.rows->Equals(*whole.read(step)->rows)) << step;
    }
  }
}

TEST_F(BatchReaderTest, OpensAUnitOnceForAllOfItsBlocks) {
  for (const std::int64_t block_rows : {0, 3}) {
    const auto source = source_of(300, 10);
    BatchReader reader = reader_of(
        source, {.batch_sizes = {32},
                 .order = {.shuffle = Shuffle::Window, .lanes = 8, .block_rows = block_rows}});

    for (std::int64_t step = 0; step < 10; ++step) ASSERT_TRUE(reader.read(step).has_value());

    // Each unit once, or twice if the end of a lane shares it with the beginning of the next.
    EXPECT_EQ(std::accumulate(source->reads.begin(), source->reads.end(), 0), 30 + 8 - 1)
        << block_rows;
  }
}

TEST_F(BatchReaderTest, ReadsTheOrderOfThePlan) {
  const PlanInput input{.batch_sizes = {64}, .order = {.shuffle = Shuffle::Rows, .seed = 9}};
  const auto source = source_of(64, 8);
  BatchReader reader = reader_of(source, input);
  PlanInput whole = input;
  whole.layout.unit_rows = source->unit_rows();

  std::vector<std::int64_t> planned;
  for (const RowRange& range : ShardPlan::make(whole)->batch(0).ranges) {
    for (std::int64_t row = 0; row < range.count; ++row)
      planned.push_back(range.unit * 8 + range.first + row);
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
