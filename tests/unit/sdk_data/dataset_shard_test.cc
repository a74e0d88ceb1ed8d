#include "sdk/data/dataset_shard.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/dataset.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/progress/progress_clock.h"
#include "sdk/client/progress.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {
namespace {

using data::ids_of;
using data::numbered_rows;
using data::write_parquet;
using fakes::Position;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

Ids counted(std::int64_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

Ids valid_ids(const Batch& batch) {
  Ids ids = ids_of(*batch.data);
  ids.resize(static_cast<std::size_t>(batch.valid_rows));
  return ids;
}

Ids ids_of_pass(DatasetShard shard, const BatchOptions& options) {
  Ids all;
  for (const Batch& batch : shard.iter_batches(options)) {
    const Ids ids = valid_ids(batch);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no failure";
}

class DatasetShardTest : public testing::Test {
 protected:
  DatasetShardTest() { become(0, 1); }
  ~DatasetShardTest() override { sdk::forget_dataset_shards(); }

  /// Restart as rank `rank` of `world_size`, with the same datasets.
  void become(int rank, int world_size) {
    sdk::forget_dataset_shards();
    auto& session = fakes::session();
    session = fakes::FakeSession();
    session.info.rank = rank;
    session.info.world_size = world_size;
    session.info.datasets = datasets_;
  }
  void add(const std::string& name, Dict spec) {
    datasets_[name] = std::move(spec);
    fakes::session().info.datasets = datasets_;
  }
  void add_numbers(std::int64_t rows, std::int64_t rows_per_group, Dict more) {
    write_parquet(folder_ / "train.parquet", numbered_rows(0, rows), rows_per_group);
    more["format"] = "parquet";
    more["path"] = folder_ / "train.parquet";
    add("train", std::move(more));
  }

  data::TestFolder folder_;
  Dict datasets_;
};

TEST_F(DatasetShardTest, GivesEachOfThreeWorkersOneBatchOfThreeItems) {
  add("train", {{"format", "items"},
                {"items", List{Dict{{"id", 0}}, Dict{{"id", 1}}, Dict{{"id", 2}}}},
                {"split", true}});
  for (int rank = 0; rank < 3; ++rank) {
    become(rank, 3);

    int batches = 0;
    for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 1})) {
      ++batches;
      EXPECT_THAT(valid_ids(batch), ElementsAre(rank));
    }

    EXPECT_EQ(batches, 1);
  }
}

TEST_F(DatasetShardTest, ReadsEveryRowOnceOverTheRanks) {
  add_numbers(103, 10, {{"split", true}, {"shuffle", true}, {"shuffle_seed", 5}});
  Ids all;
  for (int rank = 0; rank < 4; ++rank) {
    become(rank, 4);
    DatasetShard shard = get_dataset_shard("train");

    const Ids ids = ids_of_pass(shard, {.batch_size = 8});

    EXPECT_EQ(static_cast<std::int64_t>(ids.size()), shard.rows());
    EXPECT_EQ(shard.rows(), rank < 3 ? 26 : 25);
    EXPECT_EQ(shard.total_rows(), 103);
    EXPECT_THAT(fakes::session().collectives, ElementsAre("row counts of 'train'"));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, counted(103));
}

TEST_F(DatasetShardTest, ReadsEachLineOfTextFilesOnceOverTheRanks) {
  List paths;
  for (int file = 0; file < 3; ++file) {
    const std::string path = folder_ / (std::to_string(file) + ".csv");
    std::ofstream text(path);
    text << "id;word\n";
    for (int row = 0; row < 30; ++row) text << file * 30 + row << ";\"a;b\"\n";
    paths.emplace_back(path);
  }
  add("train", {{"path", paths},
                {"delimiter", ";"},
                {"schema", Dict{{"id", "int64"}}},
                {"split", true},
                {"shuffle", true}});
  Ids all;
  for (int rank = 0; rank < 3; ++rank) {
    become(rank, 3);
    const Ids ids = ids_of_pass(get_dataset_shard("train"), {.batch_size = 7});
    EXPECT_EQ(ids.size(), 30U);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, counted(90));
}

TEST_F(DatasetShardTest, GivesTheWholeOfAnUnsplitDatasetToEachRank) {
  add_numbers(20, 7, {{"split", false}});
  become(2, 4);

  EXPECT_EQ(ids_of_pass(get_dataset_shard("train"), {.batch_size = 6}), counted(20));
  EXPECT_TRUE(fakes::session().collectives.empty());
}

TEST_F(DatasetShardTest, ShufflesEveryEpochAnew) {
  add_numbers(50, 10, {{"shuffle", true}});

  const Ids first = ids_of_pass(get_dataset_shard("train"), {.batch_size = 50});
  const Ids second = ids_of_pass(get_dataset_shard("train"), {.batch_size = 50});
  DatasetShard again = get_dataset_shard("train");
  again.set_epoch(0);
  const Ids replayed = ids_of_pass(again, {.batch_size = 50});

  EXPECT_NE(first, second);
  EXPECT_EQ(first, replayed);
}

TEST_F(DatasetShardTest, KnowsTheNumberOfBatchesBeforeTheFirst) {
  add_numbers(10, 10, {});

  EXPECT_EQ(get_dataset_shard("train").iter_batches({.batch_size = 4}).size(), 3);
  EXPECT_EQ(get_dataset_shard("train").iter_batches({.batch_size = 4, .drop_last = true}).size(),
            2);
}

TEST_F(DatasetShardTest, TellsThePositionWithEachBatch) {
  add_numbers(10, 10, {});

  for ([[maybe_unused]] const Batch& batch :
       get_dataset_shard("train").iter_batches({.batch_size = 4})) {
  }

  EXPECT_THAT(fakes::session().positions,
              ElementsAre(Position{"train", 0, 4}, Position{"train", 0, 8}, Position{"train", 1, 0},
                          Position{"train", 1, 0}));
}

TEST_F(DatasetShardTest, EndsThePassWhenTheLoopIsLeft) {
  add_numbers(1000, 10, {});

  for (int prefetch : {0, 1, 2, 64}) {
    DatasetShard shard = get_dataset_shard("train");
    shard.set_epoch(0);
    for (const Batch& batch : shard.iter_batches({.batch_size = 4, .prefetch_batches = prefetch})) {
      if (ids_of(*batch.data).front() == 8) break;
    }
    EXPECT_EQ(fakes::session().last_position(), (Position{"train", 1, 0}))
        << "prefetch " << prefetch;
  }
}

TEST_F(DatasetShardTest, KeepsThePositionWhenAnExceptionLeavesTheLoop) {
  add_numbers(1000, 10, {});

  const auto leave_by_an_exception = [] {
    for ([[maybe_unused]] const Batch& batch :
         get_dataset_shard("train").iter_batches({.batch_size = 4})) {
      throw Stopped("preempted");
    }
  };

  EXPECT_THROW(leave_by_an_exception(), Stopped);
  EXPECT_EQ(fakes::session().last_position(), (Position{"train", 0, 4}));
}

TEST_F(DatasetShardTest, EndsARangeThatIsNeverIterated) {
  add_numbers(1000, 10, {});

  { const BatchRange range = get_dataset_shard("train").iter_batches(); }

  EXPECT_EQ(fakes::session().last_position(), std::nullopt);
}

TEST_F(DatasetShardTest, GoesOnInTheMiddleOfAnEpochAtAnotherWorldSize) {
  add_numbers(100, 5, {{"split", true}, {"shuffle", true}});
  Ids seen;
  std::optional<Position> left_at;
  Dict order;
  for (int rank = 0; rank < 2; ++rank) {
    become(rank, 2);
    int steps = 0;
    for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 8})) {
      const Ids ids = valid_ids(batch);
      seen.insert(seen.end(), ids.begin(), ids.end());
      left_at = fakes::session().last_position();
      order = *fakes::session().order;
      if (++steps == 3) break;
    }
  }
  ASSERT_EQ(left_at, (Position{"train", 0, 48}));

  for (int rank = 0; rank < 3; ++rank) {
    become(rank, 3);
    fakes::session().checkpoint_metadata =
        Dict{{"data", Dict{{"train", Dict{{"epoch", 0}, {"rows", 48}, {"order", order}}}}}};
    DatasetShard shard = get_dataset_shard("train");
    const Ids rest = ids_of_pass(shard, {.batch_size = 5});
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(fakes::session().last_position(), (Position{"train", 1, 0}));
    EXPECT_EQ(static_cast<std::int64_t>(ids_of_pass(shard, {.batch_size = 5}).size()), shard.rows())
        << "the next epoch is whole";
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, counted(100));
}

TEST_F(DatasetShardTest, BeginsAfterTheRestoredEpoch) {
  add_numbers(10, 10, {});
  fakes::session().info.restored_epoch = 4;

  ids_of_pass(get_dataset_shard("train"), {.batch_size = 10});

  EXPECT_EQ(fakes::session().last_position(), (Position{"train", 6, 0}));
}

TEST_F(DatasetShardTest, TakesWhatIsNoPositionForNone) {
  add_numbers(10, 10, {});
  for (const Value& other :
       {Value(7), Value(Dict{{"train", "v2"}}), Value(Dict{{"train", Dict{{"version", 3}}}}),
        Value(Dict{{"train", Dict{{"epoch", 9}, {"rows", "many"}}}})}) {
    become(0, 1);
    fakes::session().info.restored_epoch = 4;
    fakes::session().checkpoint_metadata = Dict{{"data", other}};

    EXPECT_EQ(ids_of_pass(get_dataset_shard("train"), {.batch_size = 10}), counted(10));

    EXPECT_EQ(fakes::session().last_position(), (Position{"train", 6, 0})) << to_json(other);
  }
}

TEST_F(DatasetShardTest, RefusesOtherRowsThanTheCheckpointsWithinAnEpoch) {
  add_numbers(10, 10, {});
  (void)ids_of_pass(get_dataset_shard("train"), {.batch_size = 10});
  const Dict order = *fakes::session().order;
  const auto resume = [&](std::int64_t rows, std::int64_t consumed, Dict more) {
    add_numbers(rows, 10, std::move(more));
    become(0, 1);
    fakes::session().checkpoint_metadata =
        Dict{{"data", Dict{{"train", Dict{{"epoch", 3}, {"rows", consumed}, {"order", order}}}}}};
    return ids_of_pass(get_dataset_shard("train"), {.batch_size = 10}).size();
  };

  EXPECT_EQ(resume(10, 8, {}), 2U);
  EXPECT_EQ(failure_of([&] { resume(12, 8, {}); }),
            "dataset 'train': its rows are not those of which the checkpoint counts 8 in epoch 3: "
            "changed: train.parquet (12 rows, not 10) (put the files back, or set the dataset's "
            "on_change: restart_epoch, which begins this epoch again)");
  EXPECT_EQ(resume(12, 8, {{"on_change", "restart_epoch"}}), 12U);
  EXPECT_EQ(fakes::session().last_position(), (Position{"train", 4, 0}));
  EXPECT_EQ(resume(12, 0, {}), 12U) << "between epochs, a dataset may change";
}

TEST_F(DatasetShardTest, KeepsTheLanesThatTheRunBeganWith) {
  add_numbers(100, 10, {{"split", true}});
  become(0, 40);
  (void)ids_of_pass(get_dataset_shard("train"), {.batch_size = 1});
  const Dict order = *fakes::session().order;
  EXPECT_EQ(Config(order).get<std::int64_t>("lanes"), 48);

  become(0, 1);
  fakes::session().checkpoint_metadata =
      Dict{{"data", Dict{{"train", Dict{{"epoch", 1}, {"rows", 0}, {"order", order}}}}}};
  (void)ids_of_pass(get_dataset_shard("train"), {.batch_size = 1});
  EXPECT_EQ(*fakes::session().order, order);
}

TEST_F(DatasetShardTest, GoesOnFromACursorOfVersionOne) {
  add_numbers(90, 10, {{"shuffle", true}, {"shuffle_seed", 4}});
  const auto rest_after = [&](Dict cursor) {
    become(0, 1);
    fakes::session().checkpoint_metadata = Dict{{"data", Dict{{"train", std::move(cursor)}}}};
    return ids_of_pass(get_dataset_shard("train"), {.batch_size = 10});
  };
  // Nine row groups in the eight lanes of version 1, and its digest.
  const Ids rest = rest_after({{"epoch", 3}, {"rows", 80}, {"order", "bbbed4d8d2dd6775"}});

  EXPECT_THAT(rest, ElementsAre(23, 22, 77, 74, 30, 62, 85, 49, 52, 14));
  EXPECT_EQ(rest_after({{"epoch", 3}, {"rows", 80}}), rest) << "the first ones had no digest";
  EXPECT_THAT(
      failure_of([&] {
        rest_after({{"epoch", 3}, {"rows", 80}, {"order", "other"}});
      }),
      HasSubstr("the checkpoint is of an earlier version, which kept no list of the files"));
  EXPECT_EQ(rest_after({{"epoch", 3}, {"rows", 0}, {"order", "other"}}).size(), 90U);
}

TEST_F(DatasetShardTest, BeginsTheNextEpochWhereTheCheckpointLeftNothingToDo) {
  add_numbers(10, 10, {});
  fakes::session().checkpoint_metadata =
      Dict{{"data", Dict{{"train", Dict{{"epoch", 3}, {"rows", 8}}}}}};

  const Ids ids = ids_of_pass(get_dataset_shard("train"), {.batch_size = 4, .drop_last = true});

  EXPECT_EQ(ids, counted(8));
  EXPECT_EQ(fakes::session().last_position(), (Position{"train", 5, 0}));
}

TEST_F(DatasetShardTest, BeginsAnotherEpochAtItsFirstRow) {
  add_numbers(10, 10, {});
  fakes::session().checkpoint_metadata =
      Dict{{"data", Dict{{"train", Dict{{"epoch", 3}, {"rows", 8}}}}}};
  DatasetShard shard = get_dataset_shard("train");
  shard.set_epoch(4);

  EXPECT_EQ(ids_of_pass(shard, {.batch_size = 4}), counted(10));
}

TEST_F(DatasetShardTest, NamesTheRanksWhoseRowCountsDiffer) {
  add_numbers(10, 10, {{"split", true}});
  become(0, 2);
  fakes::session().gather = [](const std::string&, const std::string& mine) {
    std::string other = mine;
    other.replace(other.find("\"rows\":10"), 9, "\"rows\":12");
    return std::vector<std::string>{mine, other};
  };

  EXPECT_EQ(failure_of([] { get_dataset_shard("train").iter_batches(); }),
            "dataset 'train': the ranks differ: 10 rows on rank 0, 12 rows on rank 1 (every node "
            "must have the same files at the "
            "dataset's path)");
}

TEST_F(DatasetShardTest, LetsRanksReadBatchesOfDifferentSizes) {
  add_numbers(10, 10, {{"split", true}});
  become(1, 2);
  fakes::session().gather = [](const std::string&, const std::string& mine) {
    std::string other = mine;
    other.replace(other.find("\"batch_size\":2"), 14, "\"batch_size\":3");
    return std::vector<std::string>{other, mine};
  };

  EXPECT_THAT(ids_of_pass(get_dataset_shard("train"), {.batch_size = 2}), ElementsAre(3, 4, 8, 9));
}

TEST_F(DatasetShardTest, GivesRanksRowsByTheirWeights) {
  add_numbers(20, 10, {{"split", true}, {"preserve_order", true}});
  become(1, 2);
  fakes::session().gather = [](const std::string&, const std::string& mine) {
    std::string other = mine;
    other.replace(other.find("\"weight\":1"), 10, "\"weight\":3");
    return std::vector<std::string>{other, mine};
  };
  std::vector<double> weights;
  Ids ids;
  for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 4})) {
    weights.push_back(batch.weight);
    for (const std::int64_t id : valid_ids(batch)) ids.push_back(id);
  }

  EXPECT_THAT(ids, ElementsAre(6, 7, 14, 15, 19)) << "2 rows of 8, and of the last 4 one";
  EXPECT_THAT(weights, ElementsAre(0.5, 0.5, 0.5));
}

TEST_F(DatasetShardTest, MeasuresTheSpeedOfABalancedOneWithoutWaits) {
  std::uint64_t began = 0, ended = 0;
  const auto speeds_of_passes = [&](bool balance) {
    add_numbers(40, 10, {{"split", true}, {"balance", balance}});
    become(0, 2);
    std::vector<std::string> views;
    fakes::session().gather = [&](const std::string&, const std::string& mine) {
      views.push_back(mine);
      return std::vector<std::string>{mine, mine};
    };
    const auto spin = [](std::uint64_t ns) {
      for (const std::uint64_t since = progress_now(); progress_now() - since < ns;) {
      }
    };
    began = progress_now();
    for (int pass = 0; pass < 2; ++pass) {
      for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 5})) {
        EXPECT_EQ(batch.valid_rows, 5);
        const std::uint64_t batch_began = progress_now();
        spin(1'000'000);
        const std::uint64_t worked = progress_now() - batch_began;
        const sdk::InPhase waiting(Phase::Collective);
        spin(9 * worked);
      }
    }
    ended = progress_now();
    std::vector<double> speeds;
    for (const std::string& view : views)
      speeds.push_back(parse_json(view).as<Dict>().at("speed").as<double>());
    return speeds;
  };

  EXPECT_THAT(speeds_of_passes(false), ElementsAre(0, 0));
  const auto speeds = speeds_of_passes(true);
  ASSERT_EQ(speeds.size(), 2u);
  EXPECT_EQ(speeds[0], 0) << "not known yet";
  ASSERT_GT(speeds[1], 0);
  const double busy_ns = 15 * 1e9 / speeds[1];  // of 3 batches: nobody asks after the fourth
  EXPECT_GE(busy_ns, 3e6);
  EXPECT_LT(busy_ns, static_cast<double>(ended - began) / 4) << "9 of 10 were waits";
}

TEST_F(DatasetShardTest, RefusesABatchThatIsTooLarge) {
  add_numbers(10, 10, {});

  EXPECT_EQ(failure_of([] {
              get_dataset_shard("train").iter_batches({.batch_size = std::int64_t{1} << 31});
            }),
            "dataset 'train': batch_size is 2147483648 (give at most 2147483647)");
}

TEST_F(DatasetShardTest, SaysWhichDatasetsThereAre) {
  EXPECT_EQ(failure_of([] { get_dataset_shard("train"); }),
            "the job has no dataset 'train', nor any other (add it under `datasets` in the "
            "job's YAML)");
  add("valid", {{"path", folder_.path()}});
  add("test", {{"path", folder_.path()}});
  EXPECT_EQ(failure_of([] { get_dataset_shard("trian"); }),
            "the job has no dataset 'trian', only 'test', 'valid' (add it under `datasets` in the "
            "job's YAML)");
}

TEST_F(DatasetShardTest, NamesTheDatasetThatCannotBeOpened) {
  add("train", {{"path", folder_ / "gone"}});
  EXPECT_EQ(failure_of([] { get_dataset_shard("train"); }),
            "dataset 'train': " + folder_ / "gone" +
                " does not exist (check the path in the job's YAML)");
  add("train", {{"format", "tar"}, {"path", folder_ / "gone"}});
  EXPECT_EQ(failure_of([] { get_dataset_shard("train"); }),
            "dataset 'train': its format is 'tar' (auto, parquet, csv, json, arrow, orc, numpy, "
            "cifar, images, webdataset and items can be read)");
  add("train", {{"format", "items"}, {"items", List{}}});
  EXPECT_EQ(failure_of([] { get_dataset_shard("train"); }), "dataset 'train': it has no items");
}

TEST_F(DatasetShardTest, RefusesOptionsThatCannotBe) {
  add_numbers(10, 10, {});

  EXPECT_EQ(failure_of([] { get_dataset_shard("train").iter_batches({.batch_size = 0}); }),
            "dataset 'train': batch_size is 0 (give at least 1)");
  for (const double weight : {0.0, -1.0, 1001.0, std::nan("")}) {
    EXPECT_THAT(failure_of([&] { get_dataset_shard("train").iter_batches({.weight = weight}); }),
                HasSubstr("(give 0.001 to 1000)"));
  }
  EXPECT_EQ(failure_of([] { get_dataset_shard("train").iter_batches({.prefetch_batches = -1}); }),
            "dataset 'train': prefetch_batches is -1 (give 0 for none)");
  EXPECT_EQ(failure_of([] { get_dataset_shard("train").iter_batches({.prefetch_bytes = -1}); }),
            "dataset 'train': prefetch_bytes is -1 (give 0 to prepare one batch at a time)");
}

TEST_F(DatasetShardTest, ThrowsWhatTheReadingThreadCouldNotRead) {
  add_numbers(2000, 1000, {});
  for (int prefetch : {0, 2}) {
    sdk::forget_dataset_shards();
    DatasetShard shard = get_dataset_shard("train");
    std::filesystem::remove(folder_ / "train.parquet");

    const std::string failure =
        failure_of([&] { ids_of_pass(shard, {.batch_size = 10, .prefetch_batches = prefetch}); });

    EXPECT_THAT(failure, HasSubstr("dataset 'train': cannot open " + folder_ / "train.parquet"));
    write_parquet(folder_ / "train.parquet", numbered_rows(0, 2000), 1000);
  }
}

TEST_F(DatasetShardTest, RefusesASecondBeginAndAnOverlappingPass) {
  add_numbers(100, 10, {});
  DatasetShard shard = get_dataset_shard("train");
  BatchRange range = shard.iter_batches({.batch_size = 10});
  auto batch = range.begin();

  EXPECT_EQ(
      failure_of([&] { range.begin(); }),
      "begin() of one pass over 'train' was called twice (call iter_batches() for the next pass)");
  ids_of_pass(shard, {.batch_size = 10});
  EXPECT_EQ(failure_of([&] { ++batch; }),
            "another pass over 'train' began before this one ended (passes over one dataset cannot "
            "overlap)");
}

TEST_F(DatasetShardTest, KeepsABatchAfterItsPass) {
  add_numbers(100, 10, {});

  Batch kept;
  for (const Batch& batch : get_dataset_shard("train").iter_batches({.batch_size = 3}))
    kept = batch;
  sdk::forget_dataset_shards();

  EXPECT_THAT(ids_of(*kept.data), ElementsAre(99));
}

TEST_F(DatasetShardTest, AShuffledPassOverManyRowsHasEachOnce) {
  add_numbers(200'000, 10'000, {{"shuffle", true}});
  DatasetShard shard = get_dataset_shard("train");

  Ids ids = ids_of_pass(shard, {.batch_size = 256});

  EXPECT_FALSE(std::is_sorted(ids.begin(), ids.end()));
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, counted(200'000));
}

}  // namespace
}  // namespace train
