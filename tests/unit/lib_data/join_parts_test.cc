#include "lib/data/serve/join_parts.h"

#include <gmock/gmock.h>

#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using Ids = std::vector<std::int64_t>;

std::shared_ptr<arrow::RecordBatch> rows_with(const Ids& ids) {
  arrow::Int64Builder builder;
  for (const std::int64_t id : ids) must(builder.Append(id));
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                  static_cast<std::int64_t>(ids.size()), {must(builder.Finish())});
}

RowError bad_row(std::int64_t row) { return {row, {Errc::Corrupt, "bad"}}; }

TEST(JoinParts, PutsRowsIntoTheOrderOfTheBatch) {
  const PartRows a{.rows = rows_with({1, 2, 3})}, b{.rows = rows_with({11, 12})};

  const JoinedRows joined = *join_parts({&a, &b}, {{0, 2}, {1, 1}, {0, 1}, {1, 1}}, 4);

  EXPECT_THAT(ids_of(*joined.rows), ElementsAre(1, 2, 11, 3, 12));
  EXPECT_EQ(joined.valid_rows, 4);
}

TEST(JoinParts, DoesNotCopyASinglePart) {
  const PartRows a{.rows = rows_with({1, 2, 3})};

  EXPECT_EQ(join_parts({&a}, {{0, 3}}, 3)->rows, a.rows);
}

TEST(JoinParts, FillsTheBatchWithRepeatsWhereRowsAreLeftOut) {
  const PartRows a{.rows = rows_with({2, 3, 2}), .bad = {bad_row(0)}, .lost = {0}};
  const PartRows b{.rows = rows_with({11, 12})};

  const JoinedRows joined = *join_parts({&a, &b}, {{0, 2}, {1, 2}, {0, 1}}, 5);

  EXPECT_THAT(ids_of(*joined.rows), ElementsAre(2, 11, 12, 3, 2));
  EXPECT_EQ(joined.valid_rows, 4);
  EXPECT_THAT(joined.bad, ElementsAre(bad_row(0)));
}

TEST(JoinParts, LeavesRowsAsTheyComeWhereNothingIsLeftToRepeat) {
  const PartRows a{.rows = rows_with({0, 0}), .bad = {bad_row(0), bad_row(1)}, .lost = {0, 1}};

  const JoinedRows joined = *join_parts({&a}, {{0, 2}}, 2);

  EXPECT_THAT(ids_of(*joined.rows), ElementsAre(0, 0));
  EXPECT_EQ(joined.valid_rows, 0);
  EXPECT_EQ(joined.bad.size(), 2u);
}

TEST(JoinParts, TakesWhatFlatMapsMakeOfTheValidRows) {
  // Of the first part, the maps make 2, 0 and 1 rows; of the second one 1 and 3, of which the last
  // two belong to a repeat.
  const PartRows a{.rows = rows_with({1, 1, 3}), .counts = {2, 0, 1}};
  const PartRows b{.rows = rows_with({11, 12, 12, 12}), .counts = {1, 3}};

  const JoinedRows joined = *join_parts({&a, &b}, {{0, 1}, {1, 1}, {0, 2}, {1, 1}}, 4);

  EXPECT_THAT(ids_of(*joined.rows), ElementsAre(1, 1, 11, 3));
  EXPECT_EQ(joined.valid_rows, 4);
}

TEST(JoinParts, LeavesRowsOutThatAFlatMapHasMade) {
  const PartRows a{
      .rows = rows_with({1, 3, 1}),
      .bad = {bad_row(0)},
      .counts = {2, 1},
  };
  PartRows lost = a;
  lost.lost = {1};

  const JoinedRows joined = *join_parts({&lost}, {{0, 2}}, 2);

  EXPECT_THAT(ids_of(*joined.rows), ElementsAre(1, 3, 1));
  EXPECT_EQ(joined.valid_rows, 2);
}

TEST(JoinParts, MayHaveNoRowsWhereAFlatMapMakesNone) {
  const PartRows a{.rows = rows_with({}), .counts = {0, 0}};

  const JoinedRows joined = *join_parts({&a}, {{0, 2}}, 2);

  EXPECT_EQ(joined.rows->num_rows(), 0);
  EXPECT_EQ(joined.valid_rows, 0);
}

TEST(JoinParts, RefusesPartsWithDifferentColumns) {
  const PartRows a{.rows = rows_with({1})};
  const PartRows b{.rows = must(a.rows->RenameColumns({"other"}))};

  EXPECT_EQ(join_parts({&a, &b}, {{0, 1}, {1, 1}}, 2).error().code, Errc::Corrupt);
}

TEST(CheckPart, RefusesWhatAPartOfSoManyRowsCannotBe) {
  const auto refused = [](const PartRows& part) { return check_part(part, 3).has_error(); };
  const auto rows = rows_with({1, 2, 3});
  EXPECT_FALSE(refused({.rows = rows}));
  EXPECT_FALSE(refused({.rows = rows, .bad = {bad_row(2)}, .lost = {0, 2}, .counts = {0, 3, 0}}));

  EXPECT_TRUE(refused({.rows = rows_with({1, 2})}));
  EXPECT_TRUE(refused({.rows = rows, .counts = {1, 2}}));
  EXPECT_TRUE(refused({.rows = rows, .counts = {1, 1, 2}}));
  EXPECT_TRUE(refused({.rows = rows, .counts = {1, 1, 1, 0}}));
  EXPECT_TRUE(refused({.rows = rows, .lost = {3}}));
  EXPECT_TRUE(refused({.rows = rows, .lost = {1, 1}}));
  EXPECT_TRUE(refused({.rows = rows, .lost = {-1}}));
  EXPECT_TRUE(refused({.rows = rows, .bad = {bad_row(3)}}));
  EXPECT_TRUE(refused({.rows = rows, .bad = {bad_row(1), bad_row(0)}}));
}

}  // namespace
}  // namespace train::data
