#include "sdk/data/column_view.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/data/items_rows.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::sdk {
namespace {

using testing::ElementsAre;

Batch batch_of(const List& items) {
  auto rows = rows_from_items(items, {});
  EXPECT_TRUE(rows.has_value()) << rows.error().describe();
  return {*rows, static_cast<std::int64_t>(items.size())};
}

template <class T>
std::vector<T> elements(const ColumnView& view) {
  std::int64_t count = 1;
  for (const std::int64_t size : view.shape) count *= size;
  const T* first = static_cast<const T*>(view.data);
  return {first, first + count};
}

std::string refusal_of(const Batch& batch) {
  try {
    column_views(batch);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "accepted";
}

TEST(ColumnView, ViewsNumbersAndNestedLists) {
  const auto views = column_views(
      batch_of({Dict{{"x", 1}, {"y", 0.5}, {"z", List{List{1, 2, 3}, List{4, 5, 6}}}},
                Dict{{"x", 2}, {"y", 1.5}, {"z", List{List{7, 8, 9}, List{10, 11, 12}}}}}));

  ASSERT_EQ(views.size(), 3U);
  EXPECT_EQ(views[0].name, "x");
  EXPECT_EQ(views[0].type, ElementType::Int64);
  EXPECT_THAT(views[0].shape, ElementsAre(2));
  EXPECT_THAT(elements<std::int64_t>(views[0]), ElementsAre(1, 2));
  EXPECT_EQ(views[1].type, ElementType::Float64);
  EXPECT_THAT(elements<double>(views[1]), ElementsAre(0.5, 1.5));
  EXPECT_THAT(views[2].shape, ElementsAre(2, 2, 3));
  EXPECT_THAT(elements<std::int64_t>(views[2]), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST(ColumnView, ViewsASliceOfFixedSizeListsWithoutACopy) {
  const auto table = data::numbered_rows(0, 10);
  const auto pixels = table->column(2)->chunk(0);
  const auto rows = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("pixels", pixels->type())}), 10, {pixels});

  const auto views = column_views({rows->Slice(3, 2), 2});

  EXPECT_EQ(views[0].type, ElementType::UInt8);
  EXPECT_THAT(views[0].shape, ElementsAre(2, 4));
  EXPECT_THAT(elements<std::uint8_t>(views[0]), ElementsAre(3, 3, 3, 3, 4, 4, 4, 4));
  const auto& values = static_cast<const arrow::UInt8Array&>(
      *static_cast<const arrow::FixedSizeListArray&>(*pixels).values());
  EXPECT_EQ(views[0].data, values.raw_values() + 12);
}

TEST(ColumnView, ViewsASliceOfListsOfEqualLength) {
  const Batch batch =
      batch_of({Dict{{"x", List{9}}}, Dict{{"x", List{1, 2}}}, Dict{{"x", List{3, 4}}}});

  const auto views = column_views({batch.data->Slice(1), 2});

  EXPECT_THAT(views[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(elements<std::int64_t>(views[0]), ElementsAre(1, 2, 3, 4));
}

Batch bytes_batch(const std::shared_ptr<arrow::DataType>& type,
                  const std::vector<std::string>& values) {
  const auto builder = data::must(arrow::MakeBuilder(type));
  for (const std::string& value : values) {
    data::must(builder->AppendScalar(
        *data::must(arrow::MakeScalar(type, arrow::Buffer::FromString(value)))));
  }
  const auto rows = static_cast<std::int64_t>(values.size());
  return {arrow::RecordBatch::Make(arrow::schema({arrow::field("x", type)}), rows,
                                   {data::must(builder->Finish())}),
          rows};
}

TEST(ColumnView, ViewsBytesOfOneLengthWithoutACopy) {
  for (const auto& type : {arrow::fixed_size_binary(2), arrow::binary()}) {
    const Batch batch = bytes_batch(type, {"ab", "cd", "ef"});

    const auto views = column_views({batch.data->Slice(1), 2});

    EXPECT_EQ(views[0].type, ElementType::UInt8) << type->ToString();
    EXPECT_THAT(views[0].shape, ElementsAre(2, 2));
    EXPECT_THAT(elements<std::uint8_t>(views[0]), ElementsAre('c', 'd', 'e', 'f'));
  }
  EXPECT_THAT(column_views(bytes_batch(arrow::binary(), {"", ""}))[0].shape, ElementsAre(2, 0));
  EXPECT_THAT(column_views(bytes_batch(arrow::binary(), {}))[0].shape, ElementsAre(0, 0));
  EXPECT_EQ(refusal_of(bytes_batch(arrow::binary(), {"ab", "c"})),
            "column 'x' does not fit a tensor: its value has 1 bytes in the batch's row 1, but 2 "
            "in row 0 (decode it when the data is made, or read it with iter_batches)");
}

TEST(ColumnView, KeepsItsMemoryWhenTheBatchIsGone) {
  const ColumnView view = column_views(batch_of({Dict{{"x", 7}}})).front();

  EXPECT_THAT(elements<std::int64_t>(view), ElementsAre(7));
}

TEST(ColumnView, GivesBoolsAByteEach) {
  const auto views = column_views(batch_of({true, false, true}));

  EXPECT_EQ(views[0].type, ElementType::Bool);
  EXPECT_THAT(elements<std::uint8_t>(views[0]), ElementsAre(1, 0, 1));
}

TEST(ColumnView, NamesTheColumnThatDoesNotFit) {
  EXPECT_EQ(refusal_of(batch_of({Dict{{"x", 1}}, Dict{}})),
            "column 'x' does not fit a tensor: 1 of its values are null (fill or drop them when "
            "the data is made)");
  EXPECT_EQ(refusal_of(batch_of({Dict{{"x", List{1, 2}}}, Dict{{"x", List{1}}}})),
            "column 'x' does not fit a tensor: its list has 1 values in the batch's row 1, but 2 "
            "in row 0 (pad the lists when the data is "
            "made, or read them with iter_batches)");
  EXPECT_EQ(refusal_of(batch_of({Dict{{"x", "text"}}})),
            "column 'x' does not fit a tensor: its type is string (leave it out with `columns` of "
            "the dataset, or read it with "
            "iter_batches)");
}

}  // namespace
}  // namespace train::sdk
