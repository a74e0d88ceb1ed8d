// The built-in maps, each on a few rows whose result is written down.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/initialize.h>
#include <gmock/gmock.h>

#include <set>

#include "lib/data/formats/fixed_records.h"
#include "lib/data/transform/row_map.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::shared_ptr<arrow::RecordBatch>;

class Maps : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  /// Return one column of rows of `shape`, whose values count up from 0.
  template <class Type = arrow::UInt8Type>
  static Rows counted(const std::string& name, const std::vector<std::int64_t>& shape,
                      std::int64_t rows) {
    std::int64_t count = rows;
    for (const std::int64_t length : shape) count *= length;
    typename arrow::TypeTraits<Type>::BuilderType builder;
    for (std::int64_t i = 0; i < count; ++i)
      must(builder.Append(static_cast<typename Type::c_type>(i)));
    auto values = *as_rows(must(builder.Finish()), shape);
    return arrow::RecordBatch::Make(arrow::schema({arrow::field(name, values->type())}), rows,
                                    {values});
  }
  static std::vector<std::uint64_t> seeds(std::int64_t rows) {
    std::vector<std::uint64_t> all;
    for (std::int64_t row = 0; row < rows; ++row)
      all.push_back(0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(row + 1));
    return all;
  }
  /// Map the rows; return each as text.
  static std::vector<std::string> mapped(const BuiltInMapSpec& spec, const Rows& rows) {
    std::vector<std::string> texts;
    auto map = RowMap::make(spec);
    if (map.has_error()) return {map.error().describe()};
    std::vector<BadRow> bad;
    const auto schema = map->output(*rows->schema());
    const auto done = map->apply(*rows, seeds(rows->num_rows()), bad);
    if (done.has_error()) return {done.error().describe()};
    EXPECT_TRUE(schema) << schema.error().describe();
    EXPECT_TRUE((*done)->schema()->Equals(**schema)) << (*done)->schema()->ToString();
    EXPECT_TRUE((*done)->ValidateFull().ok());
    for (std::int64_t row = 0; row < (*done)->num_rows(); ++row) {
      std::string text = must((*done)->column(0)->GetScalar(row))->ToString();
      texts.push_back(text);
    }
    return texts;
  }
  /// Return a row's numbers, without the types of the lists around them.
  static std::vector<double> numbers(const BuiltInMapSpec& spec, const Rows& rows) {
    auto map = RowMap::make(spec);
    std::vector<BadRow> bad;
    const auto done = map->apply(*rows, seeds(rows->num_rows()), bad);
    if (done.has_error()) {
      ADD_FAILURE() << done.error().describe();
      return {};
    }
    std::shared_ptr<arrow::Array> values = (*done)->column(0);
    while (values->type_id() == arrow::Type::FIXED_SIZE_LIST)
      values = static_cast<const arrow::FixedSizeListArray&>(*values).values();
    std::vector<double> all;
    for (std::int64_t i = 0; i < values->length(); ++i)
      all.push_back(std::stod(must(values->GetScalar(i))->ToString()));
    return all;
  }
  static std::string refusal(const BuiltInMapSpec& spec, const Rows& rows) {
    auto map = RowMap::make(spec);
    if (map.has_error()) return map.error().describe();
    const auto schema = map->output(*rows->schema());
    return schema.has_error() ? schema.error().describe() : "nothing is wrong";
  }
};

TEST_F(Maps, CropsTheCentre) {
  EXPECT_THAT(numbers({.name = "center_crop", .size = {2, 1}}, counted("image", {2, 4, 3}, 1)),
              ElementsAre(4, 7, 16, 19));
}

TEST_F(Maps, CropsAtAPlaceThatFollowsFromTheSeed) {
  const auto rows = counted("image", {1, 4, 4}, 16);
  const BuiltInMapSpec crop{.name = "random_crop", .size = {3, 3}};
  const auto all = numbers(crop, rows);

  ASSERT_EQ(all.size(), 16U * 9);
  std::set<double> corners;
  for (std::size_t row = 0; row < 16; ++row) {
    const double corner = all[row * 9] - 16.0 * static_cast<double>(row);
    corners.insert(corner);
    EXPECT_EQ(all[row * 9 + 8] - all[row * 9], 10);  // two lines and two columns on
  }
  EXPECT_THAT(corners, ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(numbers(crop, rows), all);
}

TEST_F(Maps, CropsFromThePaddingAround) {
  const auto all = numbers({.name = "random_crop", .size = {1, 1}, .padding = 1},
                           counted<arrow::Int32Type>("image", {1, 1, 1}, 64));

  std::size_t inside = 0;
  for (std::size_t row = 0; row < all.size(); ++row) {
    EXPECT_TRUE(all[row] == 0 || all[row] == static_cast<double>(row));
    if (row > 0 && all[row] != 0) ++inside;
  }
  EXPECT_GT(inside, 1U);  // about a ninth
  EXPECT_LT(inside, 20U);
  EXPECT_THAT(numbers({.name = "random_crop", .size = {3, 3}, .padding = 1},
                      counted("image", {1, 1, 1}, 1)),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(numbers({.name = "random_crop", .size = {4, 4}, .padding = 1},
                      counted("image", {1, 2, 2}, 1)),
              ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 3, 0, 0, 0, 0, 0));
}

TEST_F(Maps, FlipsWithItsProbability) {
  const auto rows = counted("image", {2, 2, 2}, 1);
  BuiltInMapSpec flip{.name = "flip", .probability = 1};

  EXPECT_THAT(numbers(flip, rows), ElementsAre(1, 0, 3, 2, 5, 4, 7, 6));
  flip.vertical = true;
  EXPECT_THAT(numbers(flip, rows), ElementsAre(2, 3, 0, 1, 6, 7, 4, 5));
  flip.probability = 0;
  EXPECT_THAT(numbers(flip, rows), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));

  const auto many = numbers({.name = "flip"}, counted<arrow::Int64Type>("image", {1, 1, 2}, 1000));
  int flipped = 0;
  for (std::size_t row = 0; row < 1000; ++row) flipped += many[2 * row] > many[2 * row + 1] ? 1 : 0;
  EXPECT_GT(flipped, 400);
  EXPECT_LT(flipped, 600);
}

TEST_F(Maps, ResizesEachChannel) {
  EXPECT_THAT(numbers({.name = "resize", .size = {1, 1}}, counted("image", {2, 2, 2}, 1)),
              ElementsAre(2, 6));
}

TEST_F(Maps, NormalizesBytesAsShares) {
  EXPECT_THAT(numbers({.name = "normalize", .mean = {0, 1}, .std = {1, 0.5}},
                      counted("image", {2, 1, 2}, 1)),
              testing::Pointwise(
                  testing::DoubleNear(1e-5),
                  std::vector<double>{0, 1 / 255.0, (2 / 255.0 - 1) / 0.5, (3 / 255.0 - 1) / 0.5}));
  EXPECT_THAT(numbers({.name = "normalize", .column = "x", .mean = {2}, .std = {2}},
                      counted<arrow::DoubleType>("x", {}, 3)),
              ElementsAre(-1, -0.5, 0));
}

TEST_F(Maps, CastsScalesAndMakesOneHot) {
  const auto labels = counted<arrow::UInt8Type>("label", {}, 3);

  EXPECT_THAT(mapped({.name = "cast", .column = "label", .type = "int64"}, labels),
              ElementsAre("0", "1", "2"));
  EXPECT_THAT(numbers({.name = "scale", .column = "label", .factor = 0.5, .offset = 1}, labels),
              ElementsAre(1, 1.5, 2));
  EXPECT_THAT(numbers({.name = "one_hot", .classes = 3}, labels),
              ElementsAre(1, 0, 0, 0, 1, 0, 0, 0, 1));
  EXPECT_THAT(mapped({.name = "one_hot", .classes = 2}, labels),
              ElementsAre("column 'label': it is 2 in the batch's row 2, and there are 2 classes "
                          "from 0 on"));
  EXPECT_THAT(mapped({.name = "cast", .column = "x", .type = "int8"},
                     counted<arrow::Int64Type>("x", {}, 200))
                  .front(),
              HasSubstr("column 'x': a value does not fit int8: "));
}

TEST_F(Maps, MapsRowsThatAreASlice) {
  const auto rows = counted("image", {1, 1, 2}, 4)->Slice(1, 2);

  EXPECT_THAT(numbers({.name = "flip", .probability = 1}, rows), ElementsAre(3, 2, 5, 4));
  EXPECT_THAT(numbers({.name = "scale", .column = "image", .factor = 1}, rows),
              ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(numbers({.name = "one_hot", .classes = 4}, counted("label", {}, 4)->Slice(2, 1)),
              ElementsAre(0, 0, 1, 0));
}

TEST_F(Maps, DecodesTheBytesOfFilesAndTellsBadOnes) {
  const std::string png = [] {
    std::ifstream file(TRAIN_SOURCE_DIR "/tests/unit/lib_data/pictures/rgb.png", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  arrow::BinaryBuilder builder;
  for (const std::string& content : {png, std::string("GIF"), png}) must(builder.Append(content));
  must(builder.AppendNull());
  const auto files = must(builder.Finish());
  const auto images = must(arrow::StructArray::Make({files}, std::vector<std::string>{"bytes"}));
  const RowMap decode = *RowMap::make({.name = "decode_image", .column = "jpg", .size = {21, 30}});
  for (const std::shared_ptr<arrow::Array>& column :
       {files, std::static_pointer_cast<arrow::Array>(images)}) {
    std::vector<BadRow> bad;
    const auto rows =
        arrow::RecordBatch::Make(arrow::schema({arrow::field("jpg", column->type())}), 4, {column});
    const auto decoded = decode.apply(*rows, seeds(4), bad);

    ASSERT_TRUE(decoded) << decoded.error().describe();
    ASSERT_EQ(bad.size(), 2U);
    EXPECT_EQ(bad[0].row, 1);
    EXPECT_EQ(bad[0].why.message, "neither a JPEG nor a PNG: it begins 47 49 46");
    EXPECT_EQ(bad[1].row, 3);
    EXPECT_EQ(bad[1].why.message, "it is null");
    const auto& pictures = *(*decoded)->column(0);
    EXPECT_TRUE(pictures.RangeEquals(pictures, 0, 1, 2));
    EXPECT_FALSE(pictures.RangeEquals(pictures, 0, 1, 1));
  }
}

TEST_F(Maps, SayWhatTheyNeed) {
  const auto bytes = counted("image", {12}, 1);
  const auto picture = counted("image", {3, 2, 2}, 1);
  const auto floats = counted<arrow::FloatType>("image", {3, 2, 2}, 1);

  EXPECT_EQ(refusal({.name = "flip", .column = "jpg"}, picture),
            "there is no column 'jpg', only 'image' (name another column in the map's `column`)");
  EXPECT_EQ(
      refusal({.name = "flip"}, bytes),
      "column 'image': it is fixed_size_list<item: uint8>[12], and must be pictures, lists of "
      "[channels, height, width] (put decode_image before this map)");
  EXPECT_EQ(refusal({.name = "decode_image", .size = {1, 1}}, bytes),
            "column 'image': it is fixed_size_list<item: uint8>[12], and must be the bytes of JPEG "
            "or PNG files");
  EXPECT_EQ(refusal({.name = "center_crop", .size = {3, 1}}, picture),
            "column 'image': its pictures have 2 x 2 pixels, with the padding, fewer than [3, 1] "
            "(crop to a smaller size)");
  EXPECT_EQ(refusal({.name = "resize", .size = {1, 1}}, floats),
            "column 'image': its values are float, and must be uint8 (put resize before the maps "
            "that make other numbers)");
  EXPECT_EQ(refusal({.name = "normalize", .mean = {1, 2}, .std = {1}}, picture),
            "column 'image': `mean` has 2 numbers, and the column's rows have 3 (give one for each "
            "channel, or one for all)");
  EXPECT_EQ(refusal({.name = "one_hot", .classes = 2}, counted<arrow::FloatType>("label", {}, 1)),
            "column 'label': it is float, and must be whole numbers");
  EXPECT_EQ(refusal({.name = "blur"}, picture), "there is no built-in map 'blur'");
}

}  // namespace
}  // namespace train::data
