// The maps of a dataset, through get_dataset_shard(): what follows from the seed, what registered
// maps get, and rows that cannot be decoded.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/dataset.h>

#include <map>
#include <set>

#include "sdk/data/column_view.h"
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

template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    return failure.kind() + ": " + failure.what();
  }
  return "no failure";
}

Dict map_step(const std::string& name, Dict arguments = {}) {
  return {{"name", name}, {"arguments", std::move(arguments)}};
}

class DatasetMaps : public testing::Test {
 protected:
  DatasetMaps() { become(0, 1); }
  ~DatasetMaps() override {
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
  /// Make the dataset "train" of rows with the ids 0, 1, …, in row groups of 7.
  void add_numbers(std::int64_t rows, List maps, Dict more = {}) {
    data::write_parquet(folder_ / "train.parquet", data::numbered_rows(0, rows), 7);
    more["format"] = "parquet";
    more["path"] = folder_ / "train.parquet";
    more["columns"] = List{"id"};
    add(std::move(maps), std::move(more));
  }
  /// Make the dataset "train" of these files, in a folder of pictures.
  void add_pictures(const std::vector<std::string>& contents, Dict more = {}) {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const std::string path = folder_ / ("pics/" + std::to_string(100 + i) + "/a.png");
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      std::ofstream(path, std::ios::binary) << contents[i];
    }
    more["format"] = "images";
    more["path"] = folder_ / "pics";
    more["size"] = List{4, 5};
    add({}, std::move(more));
  }
  void add(List maps, Dict more) {
    more["map"] = std::move(maps);
    datasets_["train"] = std::move(more);
    fakes::session().info.datasets = datasets_;
  }
  static std::string picture() {
    std::ifstream file(TRAIN_SOURCE_DIR "/tests/unit/lib_data/pictures/rgb.png", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  data::TestFolder folder_;
  Dict datasets_;
};

/// A map that adds a column of the rows' seeds.
Rows with_seeds(Rows rows, const MapContext& context) {
  arrow::UInt64Builder seeds;
  for (std::int64_t row = 0; row < rows->num_rows(); ++row)
    data::must(seeds.Append(context.row_seed(row)));
  return data::must(rows->AddColumn(rows->num_columns(), "seed", data::must(seeds.Finish())));
}

/// Return the seed of each id in a pass of this rank.
std::map<std::int64_t, std::uint64_t> seeds_of_pass(std::int64_t batch_size) {
  std::map<std::int64_t, std::uint64_t> all;
  for (const Batch& batch : get_dataset_shard().iter_batches({.batch_size = batch_size})) {
    const auto ids = ids_of(*batch.data);
    const auto seeds =
        std::static_pointer_cast<arrow::UInt64Array>(batch.data->GetColumnByName("seed"));
    for (std::int64_t row = 0; row < batch.valid_rows; ++row)
      all[ids[static_cast<std::size_t>(row)]] = seeds->Value(row);
  }
  return all;
}

TEST_F(DatasetMaps, GiveEachRowTheSameSeedOnAnyWorkerInAnyBatch) {
  register_map("with_seeds", with_seeds);
  add_numbers(100, {map_step("with_seeds")}, {{"shuffle", true}, {"shuffle_seed", 5}});
  const auto alone = seeds_of_pass(9);
  const auto next_epoch = seeds_of_pass(9);

  std::map<std::int64_t, std::uint64_t> together;
  for (int rank = 0; rank < 3; ++rank) {
    become(rank, 3);
    fakes::session().info.datasets = datasets_;
    together.merge(seeds_of_pass(4));
  }

  ASSERT_EQ(alone.size(), 100U);
  EXPECT_EQ(together, alone);
  std::set<std::uint64_t> all;
  for (const auto& [id, seed] : alone) all.insert(seed);
  for (const auto& [id, seed] : next_epoch) all.insert(seed);
  EXPECT_EQ(all.size(), 200U);
}

TEST_F(DatasetMaps, GiveEachMapOtherSeeds) {
  register_map("first", with_seeds);
  register_map("second", [](Rows rows, const MapContext& context) {
    for (std::int64_t row = 0; row < rows->num_rows(); ++row) {
      EXPECT_NE(static_cast<const arrow::UInt64Array&>(*rows->column(1)).Value(row),
                context.row_seed(row));
    }
    return rows;
  });
  add_numbers(10, {map_step("first"), map_step("second")});

  EXPECT_EQ(seeds_of_pass(10).size(), 10U);
}

TEST_F(DatasetMaps, RegisteredMapsGetTheirArgumentsAndTheEpoch) {
  std::string seen;
  register_map("look", [&](Rows rows, const MapContext& context) {
    seen += context.dataset() + " " + std::to_string(context.epoch()) + " " +
            context.arguments().get<std::string>("word") + ";";
    return rows;
  });
  add_numbers(10, {map_step("look", {{"word", "hello"}})});
  auto shard = get_dataset_shard();
  for (int pass = 0; pass < 2; ++pass) {
    for (const Batch& batch : shard.iter_batches({.batch_size = 10, .prefetch_batches = 0}))
      static_cast<void>(batch);
  }

  EXPECT_EQ(seen, "train 0 hello;train 1 hello;");
}

TEST_F(DatasetMaps, RunTheBuiltInOnesInTheirOrder) {
  add_numbers(3, {map_step("scale", {{"column", "id"}, {"factor", 10}}),
                  map_step("cast", {{"column", "id"}, {"type", "int32"}}),
                  map_step("scale", {{"column", "id"}, {"factor", 1}, {"offset", 0.5}})});
  auto shard = get_dataset_shard();

  EXPECT_EQ(shard.schema()->ToString(), "id: float");
  for (const Batch& batch : shard.iter_batches())
    EXPECT_EQ(batch.data->column(0)->ToString(), "[\n  0.5,\n  10.5,\n  20.5\n]");
}

TEST_F(DatasetMaps, NameTheMapThatIsWrong) {
  add_numbers(3, {map_step("flip")});
  EXPECT_EQ(failure_of([] { get_dataset_shard(); }),
            "not_found: dataset 'train': map 'flip': there is no column 'image', only 'id' (name "
            "another column in the map's `column`)");

  add_numbers(3, {map_step("mine")});
  register_map("yours", with_seeds);
  EXPECT_EQ(failure_of([] { get_dataset_shard(); }),
            "not_found: dataset 'train': map 'mine': there is no such map: the program registers "
            "'yours', and the built-in ones are decode_image, resize, random_crop, center_crop, "
            "flip, normalize, cast, scale, one_hot (correct the name, or call "
            "train::register_map(\"mine\", …) before train::run)");
}

TEST_F(DatasetMaps, EndThePassIfARegisteredOneFails) {
  const auto failure = [&](const std::string& name, MapFunction map) {
    register_map(name, std::move(map));
    sdk::forget_dataset_shards();
    add_numbers(3, {map_step(name)});
    return failure_of([] {
      for (const Batch& batch : get_dataset_shard().iter_batches()) static_cast<void>(batch);
    });
  };

  EXPECT_EQ(failure("throws",
                    [](Rows, const MapContext&) -> Rows { throw std::out_of_range("too far"); }),
            "invalid_argument: dataset 'train': map 'throws': too far");
  EXPECT_EQ(failure("fails",
                    [](Rows, const MapContext&) -> Rows { throw Failure("not_found", "no word"); }),
            "not_found: dataset 'train': map 'fails': no word");
  EXPECT_EQ(failure("null", [](Rows, const MapContext&) -> Rows { return nullptr; }),
            "invalid_argument: dataset 'train': map 'null': it returned no batch");
  EXPECT_EQ(failure("drops", [](Rows rows, const MapContext&) { return rows->Slice(1); }),
            "invalid_argument: dataset 'train': map 'drops': it returned 2 rows for 3 (return one "
            "row for each, in the same order, or register it by train::register_flat_map)");
  EXPECT_THAT(failure("far",
                      [](Rows rows, const MapContext& context) {
                        context.row_seed(3);
                        return rows;
                      }),
              HasSubstr("map 'far': "));
}

TEST_F(DatasetMaps, RegisterEachNameOnce) {
  register_map("mine", with_seeds);

  EXPECT_EQ(failure_of([] { register_map("mine", with_seeds); }),
            "invalid_argument: register_map(\"mine\"): a map of this name is registered already");
  EXPECT_EQ(failure_of([] { register_map("flip", with_seeds); }),
            "invalid_argument: register_map(\"flip\"): a built-in map has this name");
  EXPECT_THAT(failure_of([] { register_map("a b", with_seeds); }), HasSubstr("use letters"));
  EXPECT_THAT(failure_of([] { register_map("x", nullptr); }), HasSubstr("the function is empty"));
}

/// Return "labels of the valid rows|labels of the others" of each batch.
std::vector<std::string> labels_of_pass(std::int64_t batch_size) {
  std::vector<std::string> batches;
  for (const Batch& batch : get_dataset_shard().iter_batches({.batch_size = batch_size})) {
    std::string text;
    const auto labels =
        std::static_pointer_cast<arrow::Int64Array>(batch.data->GetColumnByName("label"));
    for (std::int64_t row = 0; row < labels->length(); ++row)
      text += (row == batch.valid_rows ? "|"
               : row == 0              ? ""
                                       : " ") +
              std::to_string(labels->Value(row));
    batches.push_back(text);
  }
  return batches;
}

TEST_F(DatasetMaps, DecodePicturesThatHaveASize) {
  add_pictures({picture(), picture()});
  auto shard = get_dataset_shard();

  EXPECT_THAT(shard.schema()->ToString(/*show_metadata=*/false), HasSubstr("[5]>[4]>[3]"));
  for (const Batch& batch : shard.iter_batches())
    EXPECT_THAT(sdk::column_views(batch).front().shape, ElementsAre(2, 3, 4, 5));
}

TEST_F(DatasetMaps, DecodeNoPicturesThatAreNotRead) {
  add_pictures({"no picture", "nor this"}, {{"columns", List{"label"}}});

  EXPECT_THAT(labels_of_pass(2), ElementsAre("0 1"));
}

TEST_F(DatasetMaps, NameThePictureThatCannotBeDecoded) {
  add_pictures({picture(), "GIF89a"});

  EXPECT_EQ(failure_of([] {
              for (const Batch& batch : get_dataset_shard().iter_batches())
                static_cast<void>(batch);
            }),
            "corrupt: dataset 'train': map 'decode_image': cannot read " +
                folder_ / "pics/101/a.png" +
                ": neither a JPEG nor a PNG: it begins 47 49 46 38 (the dataset's `on_error` can "
                "leave such rows out)");
}

TEST_F(DatasetMaps, LeaveOutPicturesThatCannotBeDecoded) {
  add_pictures({picture(), "GIF89a", picture(), picture(), "", "x", picture()},
               {{"skip_rows_max", 3}});
  testing::internal::CaptureStderr();
  const auto batches = labels_of_pass(2);
  const auto once_more = labels_of_pass(2);

  EXPECT_THAT(batches, ElementsAre("0|0", "2 3", "|4 5", "6"));
  EXPECT_EQ(once_more, batches);
  EXPECT_EQ(fakes::session().last_position()->epoch, 2U);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(told, "trainrun: dataset 'train' leaves out " + folder_ / "pics/101/a.png" +
                      ": neither a JPEG nor a PNG: it begins 47 49 46 38\n"
                      "trainrun: dataset 'train' leaves out " +
                      folder_ / "pics/104/a.png" +
                      ": neither a JPEG nor a PNG: it is empty\n"
                      "trainrun: dataset 'train' leaves out " +
                      folder_ / "pics/105/a.png" + ": neither a JPEG nor a PNG: it begins 78\n");
}

TEST_F(DatasetMaps, EndIfMoreRowsAreBadThanMayBe) {
  add_pictures({"a", picture(), "b", picture(), "c"}, {{"skip_rows_max", 2}});

  testing::internal::CaptureStderr();
  EXPECT_EQ(failure_of([] { labels_of_pass(1); }),
            "resource_exhausted: dataset 'train': map 'decode_image': more than 2 rows cannot be "
            "read; the last is " +
                folder_ / "pics/104/a.png" +
                ": neither a JPEG nor a PNG: it begins 63 (repair the data, or raise "
                "`on_error.rows_max`)");
  testing::internal::GetCapturedStderr();
}

TEST_F(DatasetMaps, TurnTensorsBackIntoColumns) {
  const auto rows = data::must(data::numbered_rows(3, 4)->CombineChunksToBatch());
  auto views = sdk::tensor_column_views({rows, 4});

  ASSERT_EQ(views.size(), 2U);  // not the name
  EXPECT_TRUE(sdk::with_tensor_columns(rows, views)->Equals(*rows));

  const bool flags[] = {true, false, true, true};
  views.erase(views.begin());
  views.push_back({.name = "flag", .type = sdk::ElementType::Bool, .shape = {4}, .data = flags});
  const auto other = sdk::with_tensor_columns(rows, views);
  EXPECT_THAT(other->schema()->field_names(), ElementsAre("name", "pixels", "flag"));
  EXPECT_EQ(other->column(2)->ToString(), "[\n  true,\n  false,\n  true,\n  true\n]");

  views.back().shape = {3};
  EXPECT_EQ(failure_of([&] { sdk::with_tensor_columns(rows, views); }),
            "invalid_argument: column 'flag' has 3 rows, and the batch has 4");
}

}  // namespace
}  // namespace train
