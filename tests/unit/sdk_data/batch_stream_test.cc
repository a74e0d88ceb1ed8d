#include "sdk/data/batch_stream.h"

#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/fakes/eventually.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {
namespace {

/// Units of one row. Counts how many are opened, and notes whether they ever exceed what is
/// allowed.
class WatchedSource final : public data::RowSource {
 public:
  WatchedSource(std::int64_t groups, std::int64_t ahead_max)
      : groups_(static_cast<std::size_t>(groups), 1),
        row_(data::must(data::numbered_rows(0, 1)->CombineChunksToBatch())),
        ahead_max_(ahead_max) {}
  const std::vector<std::int64_t>& unit_rows() const override { return groups_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return row_->schema(); }
  const std::vector<data::FileRows>& files() const override { return files_; }
  std::int64_t decoded_bytes() const override { return 1; }
  Result<std::unique_ptr<data::UnitStream>> open(std::int64_t,
                                                 std::int64_t rows_at_once) const override {
    if (++reads > asked + ahead_max_) too_far = true;
    return data::MemorySource(row_).open(0, rows_at_once);
  }
  mutable std::atomic<std::int64_t> reads{0};
  mutable std::atomic<bool> too_far{false};
  std::atomic<std::int64_t> asked{0};  // batches asked for so far

 private:
  const std::vector<std::int64_t> groups_;
  const std::vector<data::FileRows> files_;
  const std::shared_ptr<arrow::RecordBatch> row_;
  const std::int64_t ahead_max_;
};

class BatchStreamTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Prefetch, BatchStreamTest, testing::Values(0, 1, 2, 16));

TEST_P(BatchStreamTest, ReadsAheadAsFarAsItWasToldAndNoFurther) {
  fakes::session() = {};
  constexpr std::int64_t kBatches = 100;
  const int prefetch = GetParam();
  // The queue, and the batch that its thread holds until the queue has capacity.
  const std::int64_t ahead = prefetch == 0 ? 0 : prefetch + 1;
  const auto source = std::make_shared<WatchedSource>(kBatches, ahead);
  auto plan = data::ShardPlan::make({.layout = {source->unit_rows()}, .batch_sizes = {1}});
  ASSERT_TRUE(plan) << plan.error().describe();
  BatchStream stream({.dataset = "train", .batches = kBatches, .prefetch_batches = prefetch},
                     std::make_unique<data::BatchReader>(source, std::move(*plan)));

  stream.begin();
  for (std::int64_t index = 0; index < kBatches; ++index) {
    const std::int64_t read_by_now = std::min(kBatches, index + ahead);
    ASSERT_TRUE(fakes::eventually([&] { return source->reads >= read_by_now; })) << index;
    ++source->asked;
    ASSERT_TRUE(stream.next()) << index;
  }

  EXPECT_EQ(stream.next(), std::nullopt);
  EXPECT_EQ(source->reads, kBatches);
  EXPECT_FALSE(source->too_far);
}

}  // namespace
}  // namespace train
