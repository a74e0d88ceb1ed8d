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

constexpr std::int64_t kBatches = 100;

/// Check that a pass reads `ahead` batches ahead of the loop, and never more.
void expect_ahead(BatchStream::Pass pass, std::int64_t ahead) {
  fakes::session() = {};
  const auto source = std::make_shared<WatchedSource>(kBatches, ahead);
  auto plan = data::ShardPlan::make({.layout = {source->unit_rows()}, .batch_sizes = {1}});
  ASSERT_TRUE(plan) << plan.error().describe();
  pass.dataset = "train";
  pass.batches = kBatches;
  BatchStream stream(std::move(pass),
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

TEST_P(BatchStreamTest, ReadsAheadAsFarAsItWasToldAndNoFurther) {
  const int prefetch = GetParam();
  // The queue, and the batch that its thread holds until the queue has capacity.
  expect_ahead({.prefetch_batches = prefetch}, prefetch == 0 ? 0 : prefetch + 1);
}

TEST(BatchStream, HoldsAsManyBatchesAsFitIntoItsBytesAndOneOfAnySize) {
  const auto of_100_bytes = [](const Batch& batch) {
    EXPECT_EQ(batch.data->num_rows(), 1);
    return sdk::Converted{.value = std::make_shared<int>(7), .bytes = 100};
  };
  const auto pass = [&](std::int64_t bytes) {
    return BatchStream::Pass{
        .prefetch_batches = 16, .prefetch_bytes = bytes, .convert = of_100_bytes};
  };
  expect_ahead(pass(1000), 10 + 1);
  expect_ahead(pass(299), 2 + 1);
  expect_ahead(pass(99), 1 + 1);
  expect_ahead(pass(0), 1 + 1);
  // Rows that are not converted are counted as they are.
  expect_ahead({.prefetch_batches = 16, .prefetch_bytes = 1}, 1 + 1);
}

TEST(BatchStream, AFailureOfAConversionEndsThePassAtItsBatch) {
  fakes::session() = {};
  for (const int prefetch : {0, 2}) {
    const auto source = std::make_shared<WatchedSource>(3, 3);
    auto plan = data::ShardPlan::make({.layout = {source->unit_rows()}, .batch_sizes = {1}});
    int calls = 0;
    BatchStream stream({.dataset = "train",
                        .batches = 3,
                        .prefetch_batches = prefetch,
                        .convert = [&](const Batch&) -> sdk::Converted {
                          if (++calls == 2) throw Failure("not_found", "the second one");
                          return {.value = std::make_shared<int>(calls)};
                        }},
                       std::make_unique<data::BatchReader>(source, std::move(*plan)));
    stream.begin();
    const auto first = stream.next();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->data, nullptr);
    EXPECT_EQ(*std::static_pointer_cast<int>(first->converted), 1);
    try {
      stream.next();
      FAIL() << "no failure";
    } catch (const Failure& why) {
      EXPECT_EQ(why.kind(), "not_found");
      EXPECT_STREQ(why.what(), "dataset 'train': the second one");
    }
    EXPECT_FALSE(stream.next());
  }
}

}  // namespace
}  // namespace train
