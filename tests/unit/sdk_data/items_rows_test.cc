#include "sdk/data/items_rows.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gtest/gtest.h>

namespace train::sdk {
namespace {

std::shared_ptr<arrow::RecordBatch> rows_of(const List& items,
                                            const std::vector<std::string>& columns = {}) {
  auto rows = rows_from_items(items, columns);
  EXPECT_TRUE(rows.has_value()) << rows.error().describe();
  return *rows;
}

std::string refusal_of(const List& items, const std::vector<std::string>& columns = {}) {
  const auto rows = rows_from_items(items, columns);
  return rows.has_value() ? "accepted" : rows.error().describe();
}

/// Return a column's values on one line, such as "[1,2]".
std::string text_of(const arrow::RecordBatch& rows, const std::string& column) {
  std::string text = rows.GetColumnByName(column)->ToString();
  std::erase_if(text, [](char c) { return c == '\n' || c == ' '; });
  return text;
}

TEST(ItemsRows, TakesTheTypesOfTheValues) {
  const auto rows = rows_of(
      {Dict{{"a", 1},
            {"b", 1},
            {"c", "x"},
            {"d", true},
            {"e", List{1, 2}},
            {"f", List{List{1.5}, List{}}}},
       Dict{{"a", 2}, {"b", 0.5}, {"c", "y"}, {"d", false}, {"e", List{}}, {"f", List{List{2}}}}});

  EXPECT_EQ(rows->schema()->ToString(),
            "a: int64\nb: double\nc: string\nd: bool\ne: list<item: int64>\nf: list<item: "
            "list<item: double>>");
  EXPECT_EQ(text_of(*rows, "a"), "[1,2]");
  EXPECT_EQ(text_of(*rows, "b"), "[1,0.5]");
  EXPECT_EQ(text_of(*rows, "c"), "[\"x\",\"y\"]");
  EXPECT_EQ(text_of(*rows, "d"), "[true,false]");
  EXPECT_EQ(text_of(*rows, "e"), "[[1,2],[]]");
  EXPECT_EQ(text_of(*rows, "f"), "[[[1.5],[]],[[2]]]");
}

TEST(ItemsRows, MakesAMissingKeyNull) {
  EXPECT_EQ(text_of(*rows_of({Dict{{"a", 1}}, Dict{{"b", 2}}, Dict{{"a", Value()}}}), "a"),
            "[1,null,null]");
}

TEST(ItemsRows, MakesPlainValuesTheColumnItem) {
  EXPECT_EQ(text_of(*rows_of({1, 2, 3}), "item"), "[1,2,3]");
}

TEST(ItemsRows, KeepsTheColumnsAskedForInTheirOrder) {
  EXPECT_EQ(rows_of({Dict{{"a", 1}, {"b", 2}, {"c", 3}}}, {"c", "a"})->schema()->ToString(),
            "c: int64\na: int64");
}

TEST(ItemsRows, NamesTheItemThatDoesNotFit) {
  EXPECT_EQ(refusal_of({Dict{{"a", 1}}, Dict{{"a", "x"}}}),
            "items[1], column 'a': found string beside int64 (give all items the same type)");
  EXPECT_EQ(refusal_of({Dict{{"a", List{1, "x"}}}}),
            "items[0], column 'a': found string beside int64 (give all items the same type)");
  EXPECT_EQ(refusal_of({Dict{{"a", Dict{{"b", 1}}}}}),
            "items[0], column 'a': found a dict inside an item (make each of its keys a column of "
            "its own)");
  EXPECT_EQ(refusal_of({Dict{{"a", 1}}, 2}),
            "items[1] is an integer, but items[0] is a dict (give dicts only, or no dicts)");
  EXPECT_EQ(refusal_of({Dict{{"a", 1}, {"b", 1}}}, {"x"}),
            "the items have no column 'x', only 'a', 'b' (correct `columns` of the dataset)");
}

}  // namespace
}  // namespace train::sdk
