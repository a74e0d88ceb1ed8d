// A mix of datasets, through get_dataset_shard(): its rows, their maps, and positions in it.
#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/dataset.h>

#include <algorithm>
#include <map>

#include "sdk/client/session.h"
#include "sdk/data/dataset_shard.h"
#include "sdk/data/map_registry.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {
namespace {

using data::ids_of;
using testing::ElementsAre;
using testing::HasSubstr;

template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    return failure.kind() + ": " + failure.what();
  }
  return "no failure";
}

class DatasetMix : public testing::Test {
 protected:
  DatasetMix() {
    data::write_parquet(folder_ / "a.parquet", data::numbered_rows(0, 70), 7);
    data::write_parquet(folder_ / "b.parquet", data::numbered_rows(1000, 40), 7);
    add("a", {});
    add("b", {});
    mix({{"a", 2.0}, {"b", 1.0}});
    become(0, 1);
  }
  ~DatasetMix() override {
    sdk::forget_dataset_shards();
    sdk::forget_maps();
  }

  void add(const std::string& name, Dict entry) {
    entry["path"] = folder_ / (name + ".parquet");
    datasets_[name] = std::move(entry);
  }
  void mix(Dict weights, Dict more = {}) {
    more["mix"] = std::move(weights);
    more["split"] = true;
    datasets_["train"] = std::move(more);
  }
  void become(int rank, int world_size) {
    sdk::forget_dataset_shards();
    auto& session = fakes::session();
    session = fakes::FakeSession();
    session.info.rank = rank;
    session.info.world_size = world_size;
    session.info.datasets = datasets_;
  }
  /// Let the next process begin where the last batch of this one ended.
  void restart(int rank, int world_size) {
    const auto position = *fakes::session().last_position();
    Dict entry{{"epoch", static_cast<std::int64_t>(position.epoch)},
               {"rows", position.rows_consumed},
               {"order", *fakes::session().order}};
    become(rank, world_size);
    fakes::session().checkpoint_metadata =
        Dict{{sdk::kPositionsKey, Dict{{"train", std::move(entry)}}}};
  }
  static std::vector<std::int64_t> valid_ids(const Batch& batch) {
    auto ids = ids_of(*batch.data);
    ids.resize(static_cast<std::size_t>(batch.valid_rows));
    return ids;
  }
  /// Return the ids of the next pass, batch by batch, of at most `batches`.
  static std::vector<std::vector<std::int64_t>> pass(std::int64_t batch_size, int batches = 1000) {
    std::vector<std::vector<std::int64_t>> all;
    for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = batch_size})) {
      all.push_back(valid_ids(batch));
      if (std::cmp_equal(all.size(), batches)) break;
    }
    return all;
  }

  data::TestFolder folder_;
  Dict datasets_;
};

TEST_F(DatasetMix, TakesRowsByWeightInTheOrderOfEach) {
  datasets_["a"] = Dict{{"path", folder_ / "a.parquet"}, {"preserve_order", true}};
  datasets_["b"] = Dict{{"path", folder_ / "b.parquet"}, {"preserve_order", true}};
  become(0, 1);
  EXPECT_EQ(get_dataset_shard().total_rows(), 105);  // then it is a's turn, which has 70
  const auto batches = pass(6);
  EXPECT_THAT(batches.at(0), ElementsAre(0, 1000, 1, 2, 1001, 3));
  EXPECT_THAT(batches.at(1), ElementsAre(4, 1002, 5, 6, 1003, 7));
  EXPECT_EQ(batches.size(), 18u);
  EXPECT_EQ(fakes::session().last_position()->epoch, 1u);
}

TEST_F(DatasetMix, EndsAsItsStoppingConditionSays) {
  mix({{"a", 1.0}, {"b", 1.0}}, {{"stopping_condition", "stop_on_longest_drop"}});
  become(0, 1);
  std::vector<std::int64_t> all;
  for (const auto& batch : pass(16)) all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected;
  for (std::int64_t id = 0; id < 70; ++id) expected.push_back(id);
  for (std::int64_t id = 1000; id < 1040; ++id) expected.push_back(id);
  EXPECT_EQ(all, expected);
}

TEST_F(DatasetMix, OfAGivenNumberOfRowsBeginsDatasetsAgain) {
  add("b", {{"shuffle", true}, {"shuffle_window", std::int64_t{1}}});
  mix({{"b", 1.0}}, {{"rows", 100}});
  become(0, 1);
  std::vector<std::int64_t> all;
  for (const auto& batch : pass(7)) all.insert(all.end(), batch.begin(), batch.end());
  ASSERT_EQ(all.size(), 100u);
  const std::vector<std::int64_t> first(all.begin(), all.begin() + 40),
      second(all.begin() + 40, all.begin() + 80);
  EXPECT_NE(first, second) << "each pass has an order of its own";
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), second.begin()));
}

// Three workers take over after two batches from one, with the same global batch.
TEST_F(DatasetMix, GoesOnAtAnotherNumberOfWorkersWithTheSameRows) {
  add("a", {{"shuffle", true}, {"shuffle_window", std::int64_t{1}}});
  become(0, 1);
  const auto alone = pass(12);
  become(0, 1);
  EXPECT_EQ(pass(12, 2).at(1), alone.at(1));
  const auto checkpoint = fakes::session();
  std::vector<std::vector<std::int64_t>> together;
  for (int rank = 0; rank < 3; ++rank) {
    fakes::session() = checkpoint;
    // The pass was left early, which ends it: go on after its second batch instead.
    fakes::session().positions.push_back({"train", 0, 24});
    fakes::session().order = checkpoint.order;
    restart(rank, 3);
    const auto mine = pass(4);
    together.resize(std::max(together.size(), mine.size()));
    for (std::size_t i = 0; i < mine.size(); ++i)
      together[i].insert(together[i].end(), mine[i].begin(), mine[i].end());
  }
  ASSERT_EQ(together.size(), alone.size() - 2);
  for (std::size_t i = 0; i < together.size(); ++i)
    EXPECT_THAT(together[i], testing::UnorderedElementsAreArray(alone[i + 2])) << i;
}

TEST_F(DatasetMix, LetsTheMapsOfEachDatasetChangeItsRows) {
  register_map("negate", [](std::shared_ptr<arrow::RecordBatch> rows, const MapContext& context) {
    EXPECT_EQ(context.dataset(), "b");
    arrow::Int64Builder builder;
    for (const std::int64_t id : ids_of(*rows)) data::must(builder.Append(-id));
    return rows->SetColumn(0, rows->schema()->field(0), data::must(builder.Finish())).ValueOrDie();
  });
  add("b", {{"map", List{Dict{{"name", "negate"}}}}});
  become(0, 1);
  const auto ids = pass(6, 1).at(0);
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [](std::int64_t id) { return id <= -1000; }), 2);
}

TEST_F(DatasetMix, NamesTheDatasetThatHasChanged) {
  (void)pass(12, 1);
  fakes::session().positions.push_back({"train", 0, 12});
  data::write_parquet(folder_ / "b.parquet", data::numbered_rows(1000, 39), 7);
  restart(0, 1);
  EXPECT_THAT(failure_of([] { (void)pass(12); }),
              testing::AllOf(HasSubstr("dataset 'train': its rows are not those of which the "
                                       "checkpoint counts 12 in epoch 0"),
                             HasSubstr("b/b.parquet (39 rows, not 40)")));
}

TEST_F(DatasetMix, OfOtherWeightsIsAnotherOrder) {
  (void)pass(12, 1);
  fakes::session().positions.push_back({"train", 0, 12});
  mix({{"a", 3.0}, {"b", 1.0}});
  restart(0, 1);
  EXPECT_THAT(failure_of([] { (void)pass(12); }), HasSubstr("checkpoint counts 12 in epoch 0"));
}

TEST_F(DatasetMix, RefusesColumnsThatDiffer) {
  add("b", {{"map", List{Dict{{"name", "cast"},
                              {"arguments", Dict{{"column", "id"}, {"type", "int32"}}}}}}});
  become(0, 1);
  EXPECT_THAT(failure_of([] { (void)get_dataset_shard(); }),
              HasSubstr("dataset 'train': its datasets have different columns: 'a' has id: int64"));
}

TEST_F(DatasetMix, CountsTheWorkOnAllOfItsDatasetsTogether) {
  std::int64_t rows = 0;
  for (const Batch& batch : get_dataset_shard().iter_batches({.batch_size = 6}))
    rows += batch.valid_rows;
  std::map<std::string, std::int64_t> counted;
  for (const OperatorStats& one : get_dataset_shard().stats().operators)
    counted[one.name] = one.rows;
  EXPECT_GT(rows, 50);
  EXPECT_EQ(counted["loop"], rows);
  EXPECT_GE(counted["decode"], rows);
  EXPECT_GE(counted["map of its datasets"], rows);
  EXPECT_GE(counted["gather"], rows);
}

}  // namespace
}  // namespace train
