// Maps that change how many rows there are, through get_dataset_shard(): which rows come of which,
// their seeds, and what the pass is like around them.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/dataset.h>

#include <map>

#include "sdk/data/dataset_shard.h"
#include "sdk/data/map_registry.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {
namespace {

using data::ids_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::shared_ptr<arrow::RecordBatch>;

/// Make id % 3 rows of each row, with the seed of the row that they come of.
FlatMapped times(const Rows& rows, const MapContext& context) {
  arrow::Int64Builder ids;
  arrow::UInt64Builder seeds;
  std::vector<std::int64_t> origins;
  const auto given = ids_of(*rows);
  for (std::size_t row = 0; row < given.size(); ++row) {
    for (std::int64_t copy = 0; copy < given[row] % 3; ++copy) {
      data::must(ids.Append(given[row]));
      data::must(seeds.Append(context.row_seed(static_cast<std::int64_t>(row))));
      origins.push_back(static_cast<std::int64_t>(row));
    }
  }
  const auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("seed", arrow::uint64())});
  return {arrow::RecordBatch::Make(schema, static_cast<std::int64_t>(origins.size()),
                                   {data::must(ids.Finish()), data::must(seeds.Finish())}),
          origins};
}

Rows with_seeds(Rows rows, const MapContext& context) {
  arrow::UInt64Builder seeds;
  for (std::int64_t row = 0; row < rows->num_rows(); ++row)
    data::must(seeds.Append(context.row_seed(row)));
  return data::must(rows->AddColumn(rows->num_columns(), "later_seed", data::must(seeds.Finish())));
}

class DatasetFlatMaps : public testing::Test {
 protected:
  DatasetFlatMaps() { become(0, 1); }
  ~DatasetFlatMaps() override {
    sdk::forget_dataset_shards();
    sdk::forget_maps();
  }

  void become(int rank, int world_size) {
    sdk::forget_dataset_shards();
    auto& session = fakes::session();
    session = fakes::FakeSession();
    session.info.rank = rank;
    session.info.world_size = world_size;
    session.info.datasets = datasets_;
  }
  /// Make the dataset "train" of rows with the ids 0, 1, …
  void add_numbers(std::int64_t rows, const std::vector<std::string>& maps, Dict more = {}) {
    data::write_parquet(folder_ / "train.parquet", data::numbered_rows(0, rows), 7);
    List steps;
    for (const std::string& name : maps)
      steps.emplace_back(Dict{{"name", name}, {"arguments", Dict()}});
    more["path"] = folder_ / "train.parquet";
    more["columns"] = List{"id"};
    more["map"] = std::move(steps);
    datasets_["train"] = std::move(more);
    fakes::session().info.datasets = datasets_;
  }

  data::TestFolder folder_;
  Dict datasets_;
};

template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    return failure.kind() + ": " + failure.what();
  }
  return "no failure";
}

/// Return the rows of a pass, as (id, seed, later seed), in an order of their own.
std::vector<std::array<std::uint64_t, 3>> rows_of_pass(std::int64_t batch_size) {
  std::vector<std::array<std::uint64_t, 3>> all;
  for (const Batch& batch : get_dataset_shard().iter_batches({.batch_size = batch_size})) {
    EXPECT_EQ(batch.valid_rows, batch.data->num_rows());
    const auto column = [&](const char* name) {
      return std::static_pointer_cast<arrow::UInt64Array>(batch.data->GetColumnByName(name));
    };
    const auto ids = ids_of(*batch.data);
    for (std::int64_t row = 0; row < batch.valid_rows; ++row)
      all.push_back({static_cast<std::uint64_t>(ids[static_cast<std::size_t>(row)]),
                     column("seed")->Value(row), column("later_seed")->Value(row)});
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST_F(DatasetFlatMaps, MakeTheSameOfEachRowOnAnyWorkerInAnyBatch) {
  register_flat_map("times", times);
  register_map("with_seeds", with_seeds);
  add_numbers(100, {"times", "with_seeds"},
              {{"shuffle", true}, {"shuffle_seed", 5}, {"split", true}});
  const auto alone = rows_of_pass(9);

  std::vector<std::array<std::uint64_t, 3>> together;
  for (int rank = 0; rank < 3; ++rank) {
    become(rank, 3);
    for (const auto& row : rows_of_pass(4)) together.push_back(row);
  }
  std::sort(together.begin(), together.end());

  ASSERT_EQ(alone.size(), 99U);  // 33 rows once, 33 twice
  EXPECT_EQ(together, alone);
  // Rows that come of one have its seed, and then seeds of their own.
  for (std::size_t i = 1; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i][0] == alone[i - 1][0], alone[i][1] == alone[i - 1][1]);
    EXPECT_NE(alone[i][2], alone[i - 1][2]);
  }
}

TEST_F(DatasetFlatMaps, KeepStepsAndPositions) {
  register_flat_map("times", times);
  add_numbers(10, {"times"});
  auto shard = get_dataset_shard();
  auto pass = shard.iter_batches({.batch_size = 3, .prefetch_batches = 0});
  std::vector<std::vector<std::int64_t>> batches;
  std::vector<std::int64_t> positions;

  EXPECT_EQ(pass.size(), 4);
  for (const Batch& batch : pass) {
    batches.push_back(ids_of(*batch.data));
    positions.push_back(fakes::session().last_position()->rows_consumed);
  }
  EXPECT_THAT(batches, ElementsAre(ElementsAre(1, 2, 2), ElementsAre(4, 5, 5), ElementsAre(7, 8, 8),
                                   ElementsAre()));
  EXPECT_THAT(positions, ElementsAre(3, 6, 9, 0));
}

TEST_F(DatasetFlatMaps, GiveABatchWithoutRowsWhereAllAreRepeats) {
  register_flat_map("times", times);
  std::vector<std::vector<std::int64_t>> batches;
  for (int rank = 0; rank < 2; ++rank) {
    become(rank, 2);
    add_numbers(5, {"times"}, {{"preserve_order", true}, {"split", true}});
    for (const Batch& batch : get_dataset_shard().iter_batches({.batch_size = 2})) {
      EXPECT_EQ(batch.valid_rows, batch.data->num_rows());
      EXPECT_EQ(batch.data->num_columns(), 2);
      batches.push_back(ids_of(*batch.data));
    }
  }
  EXPECT_THAT(batches,
              ElementsAre(ElementsAre(1), ElementsAre(4), ElementsAre(2, 2), ElementsAre()));
}

TEST_F(DatasetFlatMaps, SayWhatIsWrongWithTheirOrigins) {
  const auto failure = [&](const std::string& name, std::vector<std::int64_t> origins) {
    register_flat_map(name, [=](const Rows& rows, const MapContext&) {
      return FlatMapped{rows, origins};
    });
    sdk::forget_dataset_shards();
    add_numbers(3, {name});
    return failure_of([] {
      for (const Batch& batch : get_dataset_shard().iter_batches()) static_cast<void>(batch);
    });
  };
  const std::string hint =
      " (tell for each row which row of the batch it comes of, from 0, in their order)";

  EXPECT_EQ(failure("few", {0}),
            "invalid_argument: dataset 'train': map 'few': it returned 3 rows and 1 origins");
  EXPECT_EQ(failure("back", {0, 2, 1}),
            "invalid_argument: dataset 'train': map 'back': it returned the origin 1 after 2, of 3 "
            "rows" +
                hint);
  EXPECT_EQ(failure("far", {0, 1, 3}),
            "invalid_argument: dataset 'train': map 'far': it returned the origin 3 after 1, of 3 "
            "rows" +
                hint);
  EXPECT_EQ(failure("below", {-1, 1, 2}),
            "invalid_argument: dataset 'train': map 'below': it returned the origin -1 after -1, "
            "of 3 rows" +
                hint);
  register_flat_map("null", [](const Rows&, const MapContext&) { return FlatMapped{}; });
  sdk::forget_dataset_shards();
  add_numbers(3, {"null"});
  EXPECT_EQ(failure_of([] {
              for (const Batch& batch : get_dataset_shard().iter_batches())
                static_cast<void>(batch);
            }),
            "invalid_argument: dataset 'train': map 'null': it returned no batch");
}

TEST_F(DatasetFlatMaps, ShareTheirNamesWithTheOtherMaps) {
  register_flat_map("mine", times);
  EXPECT_EQ(failure_of([] { register_map("mine", with_seeds); }),
            "invalid_argument: register_map(\"mine\"): a map of this name is registered already");
  EXPECT_EQ(failure_of([] { register_flat_map("flip", times); }),
            "invalid_argument: register_flat_map(\"flip\"): a built-in map has this name");
}

TEST_F(DatasetFlatMaps, AreRefusedInMixes) {
  register_flat_map("times", times);
  add_numbers(3, {"times"});
  datasets_["a"] = datasets_["train"];
  datasets_["train"] = Dict{{"mix", Dict{{"a", 1.0}}}};
  become(0, 1);
  EXPECT_THAT(failure_of([] { get_dataset_shard(); }),
              HasSubstr("map 'times' of dataset 'a' changes how many rows there are, so the "
                        "weights of a mix would not hold"));
}

}  // namespace
}  // namespace train
