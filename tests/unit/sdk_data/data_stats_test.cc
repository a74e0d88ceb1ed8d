// DatasetShard::stats(): what the operators of a dataset count.
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/dataset.h>

#include <future>
#include <thread>

#include "lib/data/row_bytes.h"
#include "lib/progress/data_reader.h"
#include "sdk/client/progress.h"
#include "sdk/data/dataset_shard.h"
#include "sdk/data/map_registry.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {
namespace {

using testing::ElementsAre;
using Rows = std::shared_ptr<arrow::RecordBatch>;

class Stats : public testing::Test {
 protected:
  Stats() {
    fakes::session() = fakes::FakeSession();
    sdk::forget_dataset_shards();
  }
  ~Stats() override {
    sdk::forget_dataset_shards();
    sdk::forget_maps();
  }
  /// Make the dataset "train" of rows with the ids 0, 1, …, in row groups of 10.
  void add(std::int64_t rows, const std::vector<std::string>& maps, Dict more = {}) {
    data::write_parquet(folder_ / "train.parquet", data::numbered_rows(0, rows), 10);
    List steps;
    for (const std::string& map : maps) steps.push_back(Dict{{"name", map}, {"arguments", Dict{}}});
    more["path"] = folder_ / "train.parquet";
    more["columns"] = List{"id"};
    more["map"] = steps;
    fakes::session().info.datasets["train"] = more;
  }
  static OperatorStats of(const std::string& name) {
    for (const OperatorStats& one : get_dataset_shard().stats().operators)
      if (one.name == name) return one;
    ADD_FAILURE() << name;
    return {};
  }
  static std::vector<std::pair<std::string, std::int64_t>> rows() {
    std::vector<std::pair<std::string, std::int64_t>> found;
    for (const OperatorStats& one : get_dataset_shard().stats().operators)
      found.emplace_back(one.name, one.rows);
    return found;
  }

  data::TestFolder folder_;
};

class StatsOfAPass : public Stats, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Prefetch, StatsOfAPass, testing::Values(0, 2));

TEST_P(StatsOfAPass, CountTheRowsOfEachOperator) {
  register_map("same", [](Rows rows, const MapContext&) { return rows; });
  add(40, {"same", "same"}, {{"filter", "id >= 15"}});
  auto shard = get_dataset_shard();
  for (const Batch& batch : shard.iter_batches({.batch_size = 4, .prefetch_batches = GetParam()}))
    EXPECT_GT(batch.valid_rows, 0);

  EXPECT_THAT(rows(), ElementsAre(std::pair("index", 25), std::pair("decode", 30),
                                  std::pair("filter", 25), std::pair("gather", 25),
                                  std::pair("map same", 25), std::pair("map same (2)", 25),
                                  std::pair("batch", 25), std::pair("loop", 25)));
  EXPECT_EQ(of("gather").bytes, 25 * 8);
  EXPECT_NEAR(static_cast<double>(of("loop").bytes), 25 * 8, 25);  // with their null bits
  EXPECT_GT(of("index").bytes, 0);
  EXPECT_EQ(of("batch").queue_bytes, 0);
  for (const char* name : {"index", "decode", "filter", "gather"})
    EXPECT_GT(of(name).busy.count(), 0) << name;
}

TEST_P(StatsOfAPass, ShowWhileItLastsWhichMapTheLoopWaitsFor) {
  std::promise<void> go;
  const auto may_go = go.get_future().share();
  register_map("stuck", [may_go](Rows rows, const MapContext&) {
    may_go.wait();
    return rows;
  });
  register_map("same", [](Rows rows, const MapContext&) { return rows; });
  add(4, {"stuck", "same"});
  auto shard = get_dataset_shard();

  std::thread loop([&] {
    for (const Batch& batch : shard.iter_batches({.batch_size = 2, .prefetch_batches = GetParam()}))
      EXPECT_EQ(batch.valid_rows, 2);
  });
  using std::chrono::milliseconds;
  EXPECT_TRUE(fakes::eventually([&] {
    return of("map stuck").busy > milliseconds(5) && of("loop").waited_for_input > milliseconds(5);
  }));
  EXPECT_GT(of("map same").waited_for_input, milliseconds(5));
  EXPECT_GT(of("decode").waited_for_room, milliseconds(5));
  EXPECT_EQ(of("loop").rows, 0);
  go.set_value();
  loop.join();
  EXPECT_EQ(of("loop").rows, 4);
}

TEST_F(Stats, ShowWhatWaitsUntilTheLoopTakesIt) {
  add(100, {});
  auto shard = get_dataset_shard();
  {
    auto pass = shard.iter_batches({.batch_size = 5, .prefetch_batches = 3});
    auto batch = pass.begin();
    EXPECT_TRUE(fakes::eventually([&] {
      return of("batch").queue_bytes >= std::int64_t{3} * 5 * 8 &&
             of("batch").waited_for_room.count() > 0;
    }));
    EXPECT_TRUE(fakes::eventually([&] { return of("loop").busy.count() > 0; }));
    ++batch;
  }
  // The loop was left, and neither waits nor works any more.
  EXPECT_EQ(of("batch").queue_bytes, 0);
  const auto operators = read_data(sdk::data_page(), ~std::uint64_t{0} >> 1);
  EXPECT_FALSE(operators.empty());
  for (const DataOperator& one : operators) EXPECT_LT(one.busy_us, 3'600'000'000) << one.name();
}

TEST_F(Stats, OfAPassThatAnotherOneEndedCountNoFurther) {
  add(100, {});
  auto shard = get_dataset_shard();
  auto first = std::make_unique<BatchRange>(shard.iter_batches({.batch_size = 5}));
  auto batch = first->begin();
  auto second = shard.iter_batches({.batch_size = 5});
  auto other = second.begin();
  first.reset();
  batch = {};
  // The second pass still works: its loop is busy since it got its batch.
  const auto before = of("loop").busy;
  EXPECT_TRUE(fakes::eventually([&] { return of("loop").busy > before; }));
  EXPECT_EQ(of("loop").rows, 10);
}

TEST(RowBytes, AreThoseOfTheRowsAndNotOfTheirBuffers) {
  const Rows all = data::must(data::numbered_rows(0, 10)->CombineChunksToBatch());
  const std::int64_t ten = data::bytes_of_rows(*all);
  // id: 8 bytes, name: what its text has, pixels: 4 bytes
  EXPECT_GE(ten, 10 * 12);
  std::int64_t sum = 0;
  for (std::int64_t row = 0; row < 10; ++row) sum += data::bytes_of_rows(*all->Slice(row, 1));
  EXPECT_EQ(sum, ten);
  EXPECT_EQ(data::bytes_of_rows(*all->Slice(3, 0)), 0);
}

}  // namespace
}  // namespace train
