// The preprocessors of a dataset, through get_dataset_shard(): who fits them, what a checkpoint
// keeps, and who gets it back.
#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/checkpoint.h>
#include <train/dataset.h>

#include <filesystem>

#include "sdk/client/session.h"
#include "sdk/data/dataset_shard.h"
#include "sdk/data/preprocessing.h"
#include "tests/fakes/session.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    return failure.kind() + ": " + failure.what();
  }
  return "no failure";
}

class DatasetPreprocessors : public testing::Test {
 protected:
  DatasetPreprocessors() {
    data::write_parquet(folder_ / "train.parquet", data::numbered_rows(0, 1000), 7);
    data::write_parquet(folder_ / "valid.parquet", data::numbered_rows(5000, 10), 7);
    add("train", {{"preprocessors", steps()}, {"split", true}});
    add("valid", {{"preprocessors", steps()}, {"preprocessors_from", "train"}});
    become(0, 1);
  }
  ~DatasetPreprocessors() override { sdk::forget_dataset_shards(); }

  static List steps() {
    return {Dict{{"name", "standard_scaler"}, {"arguments", Dict{{"columns", List{"id"}}}}}};
  }
  void add(const std::string& name, Dict entry) {
    entry["path"] = folder_ / (name + ".parquet");
    datasets_[name] = std::move(entry);
  }
  void become(int rank, int world_size) {
    sdk::forget_dataset_shards();
    auto& session = fakes::session();
    session = fakes::FakeSession();
    session.info.rank = rank;
    session.info.world_size = world_size;
    session.info.datasets = datasets_;
  }
  /// Let the next process begin from a checkpoint that this one could make now.
  void restart() {
    Dict kept;
    for (const auto& [name, fitted] : fakes::session().preprocessors)
      kept[name] = Dict{{sdk::kPreprocessorsKey, fitted}};
    become(0, 1);
    fakes::session().checkpoint_metadata = Dict{{sdk::kPositionsKey, kept}};
  }
  static float first_id(const std::string& dataset) {
    for (const Batch& batch : get_dataset_shard(dataset).iter_batches({.batch_size = 4})) {
      return static_cast<const arrow::FloatArray&>(*batch.data->GetColumnByName("id")).Value(0);
    }
    return 0;
  }

  data::TestFolder folder_;
  Dict datasets_;
};

// ids 0 … 999: mean 499.5, deviation sqrt((1000² - 1) / 12)
constexpr double kMean = 499.5, kDeviation = 288.6749902572095;

TEST_F(DatasetPreprocessors, AreFittedBeforeTheFirstBatchAndChangeTheSchema) {
  EXPECT_EQ(get_dataset_shard().schema()->GetFieldByName("id")->type()->ToString(), "float");
  EXPECT_NEAR(first_id("train"), -kMean / kDeviation, 1e-6);
}

TEST_F(DatasetPreprocessors, OfAnotherDatasetAreAsTheyWereFittedOnThatOne) {
  EXPECT_NEAR(first_id("valid"), (5000 - kMean) / kDeviation, 1e-5);
  const auto& kept = fakes::session().preprocessors;
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_TRUE(kept.contains("train"));
}

TEST_F(DatasetPreprocessors, OfTheCheckpointAreTakenWithoutReadingTheDataset) {
  (void)get_dataset_shard();
  restart();
  std::filesystem::remove(folder_ / "train.parquet");  // as where a model is only validated
  EXPECT_NEAR(first_id("valid"), (5000 - kMean) / kDeviation, 1e-5);
}

TEST_F(DatasetPreprocessors, StayThoseOfTheCheckpointWhenTheDatasetHasChanged) {
  (void)get_dataset_shard();
  const auto before = fakes::session().preprocessors;
  restart();
  data::write_parquet(folder_ / "train.parquet", data::numbered_rows(0, 10), 7);
  EXPECT_NEAR(first_id("train"), -kMean / kDeviation, 1e-6);
  EXPECT_EQ(fakes::session().preprocessors, before) << "and later checkpoints keep them";
}

TEST_F(DatasetPreprocessors, OtherThanThoseOfTheCheckpointAreRefused) {
  (void)get_dataset_shard();
  add("train", {{"preprocessors", List{Dict{{"name", "min_max_scaler"},
                                            {"arguments", Dict{{"columns", List{"id"}}}}}}}});
  restart();
  EXPECT_EQ(failure_of([] { (void)get_dataset_shard(); }),
            "invalid_argument: dataset 'train': its preprocessors are not those with which the "
            "checkpoint's model was trained (put the spec's preprocessors back, or begin a new "
            "run)");
}

TEST_F(DatasetPreprocessors, ThatCannotBeReadAreNamed) {
  for (const char* text : {"", "[", "[1]", R"([{"name":"x","arguments":{},"columns":{}}])",
                           R"([{"name":"standard_scaler","arguments":{},"columns":{"id":1}}])"}) {
    become(0, 1);
    fakes::session().checkpoint_metadata =
        Dict{{sdk::kPositionsKey, Dict{{"train", Dict{{sdk::kPreprocessorsKey, text}}}}}};
    EXPECT_THAT(
        failure_of([] { (void)get_dataset_shard(); }),
        HasSubstr("corrupt: dataset 'train': the checkpoint's preprocessors cannot be read"))
        << text;
  }
}

TEST_F(DatasetPreprocessors, AreThereForAProgramThatServesTheModel) {
  (void)get_dataset_shard();
  restart();
  const Preprocessors loaded = load_preprocessors(*get_checkpoint());
  const auto rows = loaded.apply(*data::numbered_rows(5000, 1)->CombineChunksToBatch());
  EXPECT_NEAR(static_cast<const arrow::FloatArray&>(*rows->GetColumnByName("id")).Value(0),
              (5000 - kMean) / kDeviation, 1e-5);
  EXPECT_EQ(failure_of([] { (void)load_preprocessors(*get_checkpoint(), "other"); }),
            "not_found: the checkpoint keeps no preprocessors of a dataset 'other'");
  EXPECT_THAT(failure_of([&] { (void)loaded.apply(nullptr); }), HasSubstr("there are no rows"));
}

TEST_F(DatasetPreprocessors, ThatDoNotFitTheColumnsAreRefusedByName) {
  add("train", {{"preprocessors", List{Dict{{"name", "standard_scaler"},
                                            {"arguments", Dict{{"columns", List{"x"}}}}}}}});
  become(0, 1);
  EXPECT_THAT(failure_of([] { (void)get_dataset_shard(); }),
              HasSubstr("dataset 'train': standard_scaler: column 'x': there is no such column"));
}

/// Plays all ranks, one after another, again and again, until no collective lacks a rank.
class Ranks {
 public:
  struct Missing {};
  explicit Ranks(int count) : count_(count) {}
  std::vector<sdk::FittedSteps> fit(const std::vector<sdk::MapStep>& steps,
                                    const data::RowSource& source) {
    for (;;) {
      std::vector<sdk::FittedSteps> all;
      for (int rank = 0; rank < count_; ++rank) {
        fakes::session().gather = [&](const std::string& name, const std::string& mine) {
          auto& texts = gathered_[name];
          texts[rank] = mine;
          if (std::cmp_less(texts.size(), count_)) throw Missing();
          std::vector<std::string> by_rank;
          for (const auto& [of, text] : texts) by_rank.push_back(text);
          return by_rank;
        };
        try {
          auto fitted = sdk::fit_preprocessors("train", steps, source, {count_, rank});
          EXPECT_TRUE(fitted) << fitted.error().describe();
          all.push_back(std::move(*fitted));
        } catch (const Missing&) {
        }
      }
      if (std::cmp_equal(all.size(), count_)) return all;
    }
  }
  std::size_t collectives() const { return gathered_.size(); }

 private:
  const int count_;
  std::map<std::string, std::map<int, std::string>> gathered_;
};

TEST_F(DatasetPreprocessors, HaveTheSameBitsAtAnyNumberOfRanks) {
  (void)get_dataset_shard();
  const auto& source = *get_dataset_shard().impl()->source;
  // Each id is a category: the counts of a rank do not fit into one collective.
  const std::vector<sdk::MapStep> steps{{"ordinal_encoder", Dict{{"columns", List{"id"}}}},
                                        {"standard_scaler", Dict{{"columns", List{"id"}}}}};
  const auto alone = sdk::format_fitted(Ranks(1).fit(steps, source).front());
  ASSERT_TRUE(alone);
  for (const int ranks : {2, 3, 7, 100}) {
    for (const auto& fitted : Ranks(ranks).fit(steps, source))
      ASSERT_EQ(*sdk::format_fitted(fitted), *alone) << ranks << " ranks";
  }
}

TEST_F(DatasetPreprocessors, OfManyCategoriesTravelInPieces) {
  data::write_parquet(folder_ / "train.parquet", data::numbered_rows(100'000'000, 9000), 500);
  become(0, 1);
  const auto& source = *get_dataset_shard().impl()->source;
  const std::vector<sdk::MapStep> steps{{"ordinal_encoder", Dict{{"columns", List{"id"}}}}};
  Ranks ranks(2);
  const auto fitted = ranks.fit(steps, source);
  EXPECT_GT(ranks.collectives(), 2u);
  EXPECT_EQ(fitted.back().fitted.front().columns.at("id").categories.size(), 9000u);
}

TEST_F(DatasetPreprocessors, ThatLearnTooMuchForACheckpointAreRefused) {
  data::write_parquet(folder_ / "train.parquet", data::numbered_rows(1'000'000'000'000'000, 9999),
                      500);
  add("train", {{"preprocessors", List{Dict{{"name", "ordinal_encoder"},
                                            {"arguments", Dict{{"columns", List{"id"}}}}}}}});
  become(0, 1);
  EXPECT_EQ(failure_of([] { (void)get_dataset_shard(); }), "no failure");
  sdk::FittedSteps much{.steps = {{"ordinal_encoder", Dict{{"columns", List{"id"}}}}},
                        .fitted = {{}}};
  for (int i = 0; i < 9000; ++i)
    much.fitted[0].columns["id"].categories.emplace_back(std::string(40, 'a') + std::to_string(i));
  EXPECT_THAT(sdk::format_fitted(much).error().describe(),
              HasSubstr("bytes, and a checkpoint keeps 262144 (encode fewer categories"));
}

}  // namespace
}  // namespace train
