#include "lib/data/formats/tensor_shape.h"

#include <arrow/array/concatenate.h>
#include <arrow/array/util.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/extension_type.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/key_value_metadata.h>
#include <gmock/gmock.h>

#include "lib/data/dataset_files.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal_of(const Result<std::vector<std::int64_t>>& shape) {
  return shape.has_error() ? shape.error().message : "accepted";
}

TEST(ParseShape, TakesListsOfNumbersAndNothingElse) {
  EXPECT_THAT(*parse_shape("[3, 32,32 ]"), ElementsAre(3, 32, 32));
  EXPECT_THAT(*parse_shape(" [7]\n"), ElementsAre(7));
  EXPECT_THAT(*parse_shape("[]"), ElementsAre());

  for (const char* wrong : {"", "[", "3", "[3", "[3,]", "[,3]", "[3] 4", "[0]", "[-3]", "[03]",
                            "[3.5]", "[1e3]", "[\"3\"]", "[[3]]", "[99999999999999999999]",
                            "{\"shape\": [3]}", "[3 3]", "\x80\x05\x95(cos\nsystem\n"})
    EXPECT_THAT(refusal_of(parse_shape(wrong)), HasSubstr("and no list of numbers")) << wrong;
  std::string many = "[1";
  for (std::size_t i = 1; i < kTensorDimensionsMax; ++i) many += ",1";
  EXPECT_TRUE(parse_shape(many + "]"));
  EXPECT_FALSE(parse_shape(many + ",1]"));
  EXPECT_LT(refusal_of(parse_shape(std::string(1 << 20, 'x'))).size(), 200u);
}

/// Four rows of 6 numbers: 0 to 23.
std::shared_ptr<arrow::Array> lists_of(const std::shared_ptr<arrow::DataType>& type) {
  arrow::Int32Builder numbers;
  for (int i = 0; i < 24; ++i) must(numbers.Append(i));
  const auto values = must(numbers.Finish());
  if (type->id() == arrow::Type::FIXED_SIZE_LIST)
    return must(arrow::FixedSizeListArray::FromArrays(values, 6));
  if (type->id() == arrow::Type::LARGE_LIST) {
    arrow::Int64Builder offsets;
    for (int i = 0; i <= 24; i += 6) must(offsets.Append(i));
    return must(arrow::LargeListArray::FromArrays(*must(offsets.Finish()), *values));
  }
  arrow::Int32Builder offsets;
  for (int i = 0; i <= 24; i += 6) must(offsets.Append(i));
  return must(arrow::ListArray::FromArrays(*must(offsets.Finish()), *values));
}

std::shared_ptr<arrow::Field> ray_field(const std::shared_ptr<arrow::DataType>& storage,
                                        const std::string& shape,
                                        const std::string& name = "ray.data.arrow_tensor") {
  return arrow::field("x", storage,
                      arrow::key_value_metadata(
                          {"ARROW:extension:name", "ARROW:extension:metadata"}, {name, shape}));
}

/// The values of one row, and what their nesting is.
std::string nested(const std::shared_ptr<arrow::Array>& rows, std::int64_t row) {
  return rows->type()->ToString() + " " + must(rows->GetScalar(row))->ToString();
}

class TensorColumns : public testing::Test {
 protected:
  std::string write(const std::shared_ptr<arrow::Field>& field,
                    const std::shared_ptr<arrow::Array>& column, const std::string& name) {
    std::string path = folder_ / name;
    const auto table = arrow::Table::Make(arrow::schema({field}), {column});
    if (name.ends_with(".parquet")) {
      write_parquet(path, table, 3);  // two row groups
      return path;
    }
    auto file = must(arrow::io::FileOutputStream::Open(path));
    auto writer = must(arrow::ipc::MakeFileWriter(file, table->schema()));
    must(writer->WriteTable(*table));
    must(writer->Close());
    return path;
  }
  static std::shared_ptr<arrow::Array> column_of(const std::string& path,
                                                 const std::string& filter = "") {
    FilesSpec spec;
    spec.paths = {path};
    spec.filter = filter;
    auto source = open_files(spec);
    if (source.has_error()) {
      error() = source.error().describe();
      return nullptr;
    }
    arrow::ArrayVector parts;
    for (std::int64_t unit = 0; unit < static_cast<std::int64_t>((*source)->unit_rows().size());
         ++unit) {
      auto rows = (*source)->read(unit);
      if (rows.has_error()) {
        error() = rows.error().describe();
        return nullptr;
      }
      EXPECT_TRUE((*rows)->schema()->Equals(*(*source)->schema()));
      parts.push_back((*rows)->column(0));
    }
    return must(arrow::Concatenate(parts));
  }
  static std::string& error() {
    static std::string last;
    return last;
  }
  TestFolder folder_;
};

constexpr const char* kNested =
    "fixed_size_list<item: fixed_size_list<item: int32>[3]>[2] "
    "fixed_size_list<item: fixed_size_list<item: int32>[3]>[2]";

TEST_F(TensorColumns, AreNestedListsOfTheirShapeInEachFormat) {
  const auto fixed = arrow::extension::fixed_shape_tensor(arrow::int32(), {2, 3});
  const auto stored = lists_of(arrow::fixed_size_list(arrow::int32(), 6));
  const auto list = arrow::list(arrow::int32()), large = arrow::large_list(arrow::int32());
  for (const std::string ending : {".parquet", ".arrow"}) {
    const auto check = [&](const std::string& path) {
      const auto rows = column_of(path);
      ASSERT_TRUE(rows) << error();
      EXPECT_EQ(nested(rows, 3), std::string(kNested) +
                                     "[fixed_size_list<item: int32>[3][18, 19, 20], "
                                     "fixed_size_list<item: int32>[3][21, 22, 23]]")
          << path;
    };
    check(write(arrow::field("x", fixed), arrow::ExtensionType::WrapArray(fixed, stored),
                "fixed" + ending));
    check(write(ray_field(list, "[2, 3]"), lists_of(list), "ray" + ending));
    check(write(ray_field(large, "[2, 3]", "ray.data.arrow_tensor_v2"), lists_of(large),
                "ray_v2" + ending));
  }
}

TEST_F(TensorColumns, WithPermutedDimensionsAreInTheOrderOfTheTensor) {
  const auto type = arrow::extension::fixed_shape_tensor(arrow::int32(), {2, 3}, {1, 0});
  const auto stored = lists_of(arrow::fixed_size_list(arrow::int32(), 6));

  const auto rows = column_of(
      write(arrow::field("x", type), arrow::ExtensionType::WrapArray(type, stored), "p.parquet"));

  ASSERT_TRUE(rows) << error();
  EXPECT_EQ(rows->type()->ToString(), "fixed_size_list<item: fixed_size_list<item: int32>[2]>[3]");
  EXPECT_THAT(must(rows->GetScalar(1))->ToString(),
              HasSubstr("[6, 9], fixed_size_list<item: int32>[2][7, 10], "
                        "fixed_size_list<item: int32>[2][8, 11]"));
}

TEST_F(TensorColumns, PermuteAnyNumberOfDimensions) {
  arrow::Int16Builder numbers;
  for (std::int16_t i = 0; i < 48; ++i) must(numbers.Append(i));
  const auto rows = must(arrow::FixedSizeListArray::FromArrays(must(numbers.Finish()), 24));
  const TensorShape shape{.shape = {2, 3, 4}, .permutation = {2, 0, 1}};
  EXPECT_THAT(shape.permuted(), ElementsAre(4, 2, 3));

  auto plain = plain_tensors(rows->Slice(1), shape);

  ASSERT_TRUE(plain) << plain.error().describe();
  std::shared_ptr<arrow::Array> values = *plain;
  while (values->type_id() == arrow::Type::FIXED_SIZE_LIST)
    values = static_cast<const arrow::FixedSizeListArray&>(*values).values();
  const auto& flat = static_cast<const arrow::Int16Array&>(*values);
  for (int a = 0, at = 0; a < 4; ++a) {
    for (int b = 0; b < 2; ++b)
      for (int c = 0; c < 3; ++c, ++at) EXPECT_EQ(flat.Value(at), 24 + b * 12 + c * 4 + a) << at;
  }
}

TEST_F(TensorColumns, NameWhatIsWrongWithThem) {
  const auto list = arrow::list(arrow::int32());
  const auto refusal = [&](const std::shared_ptr<arrow::Field>& field,
                           const std::shared_ptr<arrow::Array>& column) {
    EXPECT_FALSE(column_of(write(field, column, "wrong.arrow")));
    return error();
  };

  EXPECT_EQ(refusal(ray_field(list, "\x80\x05K\x03."), lists_of(list)),
            "column 'x' of " + (folder_ / "wrong.arrow") +
                ": the shape of its tensors is \"\x80\x05K\x03.\", and no list of numbers as [3, "
                "32, 32] (write the data with a version of Ray that writes shapes as JSON)");
  EXPECT_THAT(refusal(ray_field(list, "[2, 4]"), lists_of(list)),
              HasSubstr("column 'x': its tensor has 6 values in row 0, and 8 by its shape"));
  EXPECT_THAT(refusal(ray_field(list, "[65536, 65536]"), lists_of(list)),
              HasSubstr("column 'x' of " + (folder_ / "wrong.arrow") + ": its shape has 2"));
  EXPECT_THAT(
      refusal(ray_field(arrow::int32(), "[2, 3]"), must(arrow::MakeArrayOfNull(arrow::int32(), 2))),
      HasSubstr("column 'x': its tensors are stored as int32"));
  const auto nulls =
      must(arrow::Concatenate({lists_of(list), must(arrow::MakeArrayOfNull(list, 2))}));
  EXPECT_THAT(refusal(ray_field(list, "[2, 3]"), nulls),
              HasSubstr("column 'x': 2 of its tensors are null (leave these rows out with the "
                        "dataset's `filter`)"));
  EXPECT_EQ(column_of(folder_ / "wrong.arrow", "x is not null")->length(), 4);
}

}  // namespace
}  // namespace train::data
