#include "lib/data/row_gatherer.h"

#include <arrow/array.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/initialize.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using arrow::json::ArrayFromJSONString;

/// Rows 1, 2 and 0 of the second part, and row 1 of the first.
const std::vector<RowsOfPart> kRanges{{1, 1, 2}, {1, 0, 1}, {0, 1, 1}};

/// Expect the values of kRanges from two parts, which are slices that begin behind other values.
void expect_gathered(const std::shared_ptr<arrow::DataType>& type, const std::string& first,
                     const std::string& second, const std::string& expected) {
  must(arrow::compute::Initialize());
  const auto schema = arrow::schema({arrow::field("x", type)});
  arrow::RecordBatchVector parts;
  for (const std::string& json : {first, second}) {
    const auto array = must(ArrayFromJSONString(type, json));
    parts.push_back(arrow::RecordBatch::Make(schema, array->length(), {array})->Slice(1));
  }
  const auto rows = must(gather_rows(parts, kRanges));
  must(rows->ValidateFull());
  const auto wanted = must(ArrayFromJSONString(type, expected));
  EXPECT_TRUE(rows->column(0)->Equals(*wanted))
      << type->ToString() << ": " << rows->column(0)->ToString();
}

TEST(GatherRows, CopiesValuesOfAnyType) {
  for (const auto& type : {arrow::uint8(), arrow::int64(), arrow::float32(), arrow::float64()})
    expect_gathered(type, "[9, 1, 2]", "[9, 3, 4, 5]", "[4, 5, 3, 2]");
  expect_gathered(arrow::boolean(), "[true, true, false]", "[false, true, true, false]",
                  "[true, false, true, false]");
  expect_gathered(arrow::utf8(), R"(["-", "a", "bb"])", R"(["-", "c", "", "e"])",
                  R"(["", "e", "c", "bb"])");
  expect_gathered(arrow::fixed_size_binary(2), R"(["--", "aa", "bb"])",
                  R"(["--", "cc", "dd", "ee"])", R"(["dd", "ee", "cc", "bb"])");
  expect_gathered(arrow::fixed_size_list(arrow::int32(), 2), "[[9, 9], [1, 2], [3, 4]]",
                  "[[9, 9], [5, 6], [7, 8], [9, 10]]", "[[7, 8], [9, 10], [5, 6], [3, 4]]");
  expect_gathered(arrow::fixed_size_list(arrow::fixed_size_list(arrow::uint8(), 1), 2),
                  "[[[9], [9]], [[1], [2]], [[3], [4]]]",
                  "[[[9], [9]], [[5], [6]], [[7], [8]], [[9], [10]]]",
                  "[[[7], [8]], [[9], [10]], [[5], [6]], [[3], [4]]]");
  expect_gathered(arrow::list(arrow::int32()), "[[9], [1], []]", "[[9], [2, 3], null, [4]]",
                  "[null, [4], [2, 3], []]");
}

TEST(GatherRows, KeepsNulls) {
  expect_gathered(arrow::int64(), "[9, 1, null]", "[9, 3, null, 5]", "[null, 5, 3, null]");
  expect_gathered(arrow::fixed_size_list(arrow::int32(), 2), "[[9, 9], [1, 2], null]",
                  "[[9, 9], [5, null], [7, 8], [9, 10]]", "[[7, 8], [9, 10], [5, null], null]");
  expect_gathered(arrow::null(), "[null, null, null]", "[null, null, null, null]",
                  "[null, null, null, null]");
}

}  // namespace
}  // namespace train::data
