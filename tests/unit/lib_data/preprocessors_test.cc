// Preprocessors, each on a few rows whose result is written down; and that one pass over parts of
// the rows teaches the same as one preprocessor after another would learn.
#include "lib/data/transform/preprocessors.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::shared_ptr<arrow::RecordBatch>;
using Specs = std::vector<PreprocessorSpec>;
const double kNone = std::nan("");

template <class Builder, class T>
std::shared_ptr<arrow::Array> column(const std::vector<std::optional<T>>& values) {
  Builder builder;
  for (const auto& value : values) must(value ? builder.Append(*value) : builder.AppendNull());
  return must(builder.Finish());
}

class PreprocessorsTest : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  static Rows rows_of(std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>> columns) {
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (auto& [name, array] : columns) {
      fields.push_back(arrow::field(name, array->type()));
      arrays.push_back(array);
    }
    return arrow::RecordBatch::Make(arrow::schema(fields), arrays.front()->length(), arrays);
  }
  /// Return people: ages 10, 20, none, 60; cities b, a, none, b; label 1, 2, 1, 1.
  static Rows people() {
    return rows_of({{"age", column<arrow::DoubleBuilder, double>({10, 20, {}, 60})},
                    {"city", column<arrow::StringBuilder, std::string>({"b", "a", {}, "b"})},
                    {"label", column<arrow::Int64Builder, std::int64_t>({1, 2, 1, 1})}});
  }
  static Result<std::vector<FittedPreprocessor>> fitted_on(const Specs& specs, const Rows& rows,
                                                           std::int64_t part = 1 << 20) {
    TRY(const auto needed, needed_columns(specs, *rows->schema()));
    std::map<std::string, ColumnSummary> sums;
    for (std::int64_t at = 0; at < rows->num_rows(); at += part) {
      for (const auto& [name, column] : needed) {
        ColumnSummary of_part;
        TRY_VOID(
            add_values(*rows->Slice(at, part)->GetColumnByName(name), column.counted, of_part));
        TRY_VOID(sums[name].merge(of_part));
      }
    }
    return fit(specs, sums);
  }
  /// Return the columns after the preprocessors: each as text.
  static std::string made(const Specs& specs, const Rows& rows, const std::string& name) {
    const auto fitted = fitted_on(specs, rows);
    if (fitted.has_error()) return fitted.error().describe();
    const auto schema = preprocessed(*fitted, rows->schema());
    const auto done = preprocess(*fitted, rows);
    if (done.has_error()) return done.error().describe();
    EXPECT_TRUE(schema) << schema.error().describe();
    EXPECT_TRUE((*done)->schema()->Equals(**schema));
    EXPECT_TRUE((*done)->ValidateFull().ok());
    EXPECT_EQ((*done)->num_rows(), rows->num_rows());
    std::string text = (*done)->GetColumnByName(name)->type()->ToString() + ":";
    for (std::int64_t row = 0; row < (*done)->num_rows(); ++row) {
      const auto value = must((*done)->GetColumnByName(name)->GetScalar(row));
      const std::string shown = value->ToString();  // of a list, with its type
      text +=
          " " + (shown.find('>') == std::string::npos ? shown : shown.substr(shown.find("][") + 1));
    }
    return text;
  }
};

TEST_F(PreprocessorsTest, AnImputerFillsInWhatIsMissing) {
  EXPECT_EQ(made({{.name = "simple_imputer", .columns = {"age"}}}, people(), "age"),
            "double: 10 20 30 60");
  EXPECT_EQ(made({{.name = "simple_imputer", .columns = {"city"}, .strategy = "most_frequent"}},
                 people(), "city"),
            "string: b a b b");
  EXPECT_EQ(made({{.name = "simple_imputer",
                   .columns = {"age"},
                   .strategy = "constant",
                   .fill = std::int64_t{-1}}},
                 people(), "age"),
            "double: 10 20 -1 60");
  EXPECT_THAT(made({{.name = "simple_imputer",
                     .columns = {"age"},
                     .strategy = "constant",
                     .fill = std::string("none")}},
                   people(), "age"),
              HasSubstr("simple_imputer: column 'age': none is no value of double"));
  const Rows nan =
      rows_of({{"x", column<arrow::FloatBuilder, float>({1.0F, std::nanf(""), 3.0F})}});
  EXPECT_EQ(made({{.name = "simple_imputer", .columns = {"x"}}}, nan, "x"), "float: 1 2 3");
}

TEST_F(PreprocessorsTest, ScalersUseWhatIsThere) {
  const Rows rows = rows_of({{"x", column<arrow::Int32Builder, std::int32_t>({2, 4, 6, {}})}});
  EXPECT_EQ(made({{.name = "min_max_scaler", .columns = {"x"}}}, rows, "x"), "float: 0 0.5 1 nan");
  EXPECT_EQ(made({{.name = "max_abs_scaler", .columns = {"x"}}}, rows, "x"),
            "float: 0.33333334 0.6666667 1 nan");
  EXPECT_EQ(made({{.name = "standard_scaler", .columns = {"x"}}}, rows, "x"),
            "float: -1.2247449 0 1.2247449 nan");
  const Rows same = rows_of({{"x", column<arrow::DoubleBuilder, double>({5, 5})}});
  EXPECT_EQ(made({{.name = "standard_scaler", .columns = {"x"}}}, same, "x"), "float: 0 0");
}

TEST_F(PreprocessorsTest, EncodersNumberTheSortedValues) {
  EXPECT_EQ(made({{.name = "ordinal_encoder", .columns = {"city"}}}, people(), "city"),
            "int64: 1 0 -1 1");
  EXPECT_EQ(made({{.name = "label_encoder", .columns = {"label"}}}, people(), "label"),
            "int64: 0 1 0 0");
  EXPECT_EQ(made({{.name = "one_hot_encoder", .columns = {"city"}}}, people(), "city"),
            "fixed_size_list<item: float>[2]: [0, 1] [1, 0] [0, 0] [0, 1]");
  EXPECT_EQ(made({{.name = "one_hot_encoder", .columns = {"city"}, .max_categories = 1}}, people(),
                 "city"),
            "fixed_size_list<item: float>[1]: [1] [0] [0] [1]");
}

TEST_F(PreprocessorsTest, WhatWasNeverSeenHasNoNumber) {
  const auto fitted = fitted_on({{.name = "ordinal_encoder", .columns = {"label"}}}, people());
  ASSERT_TRUE(fitted);
  const auto done =
      preprocess(*fitted, rows_of({{"label", column<arrow::Int64Builder, std::int64_t>({2, 7})}}));
  ASSERT_TRUE(done) << done.error().describe();
  EXPECT_EQ((*done)->column(0)->ToString(), "[\n  1,\n  -1\n]");
}

// Checkpoints may hold anything.
TEST_F(PreprocessorsTest, BinsWithoutAnOriginHaveNoNumber) {
  FittedPreprocessor broken{
      .spec = {.name = "uniform_k_bins_discretizer", .columns = {"label"}, .bins = 4}};
  broken.columns["label"] = {.offset = kNone, .scale = 0};
  const auto done =
      preprocess({broken}, rows_of({{"label", column<arrow::Int64Builder, std::int64_t>({2})}}));
  ASSERT_TRUE(done) << done.error().describe();
  EXPECT_EQ((*done)->column(0)->ToString(), "[\n  -1\n]");
}

TEST_F(PreprocessorsTest, BinsAndPowersAndNorms) {
  const Rows rows = rows_of({{"x", column<arrow::DoubleBuilder, double>({0, 3, 4, 10, kNone})},
                             {"y", column<arrow::DoubleBuilder, double>({0, -4, 3, 0, 1})}});
  EXPECT_EQ(made({{.name = "uniform_k_bins_discretizer", .columns = {"x"}, .bins = 5}}, rows, "x"),
            "int64: 0 1 2 4 -1");
  EXPECT_EQ(made({{.name = "custom_k_bins_discretizer", .columns = {"x"}, .edges = {1, 4, 8}}},
                 rows, "x"),
            "int64: 0 0 1 1 -1");
  EXPECT_EQ(made({{.name = "power_transformer", .columns = {"x"}, .power = 2}}, rows, "x"),
            "float: 0 7.5 12 60 nan");
  EXPECT_EQ(made({{.name = "power_transformer", .columns = {"y"}, .power = 1}}, rows, "y"),
            "float: 0 -4 3 0 1");
  EXPECT_EQ(made({{.name = "power_transformer", .columns = {"x"}, .power = 2, .method = "box-cox"}},
                 rows, "x"),
            "float: -0.5 4 7.5 49.5 nan");
  EXPECT_EQ(made({{.name = "normalizer", .columns = {"x", "y"}}}, rows, "y"),
            "float: 0 -0.8 0.6 0 nan");
  EXPECT_EQ(made({{.name = "normalizer", .columns = {"x", "y"}, .norm = "l1"}}, rows, "x"),
            "float: 0 0.42857143 0.5714286 1 nan");
  EXPECT_EQ(made({{.name = "normalizer", .columns = {"x", "y"}, .norm = "max"}}, rows, "x"),
            "float: 0 0.75 1 1 nan");
}

TEST_F(PreprocessorsTest, AConcatenatorJoinsColumnsOfNumbers) {
  const Specs specs{{.name = "simple_imputer", .columns = {"age"}},
                    {.name = "one_hot_encoder", .columns = {"city"}},
                    {.name = "concatenator", .output = "x", .exclude = {"label"}}};
  EXPECT_EQ(made(specs, people(), "x"),
            "fixed_size_list<item: float>[3]: [10, 0, 1] [20, 1, 0] [30, 0, 0] "
            "[60, 0, 1]");
  EXPECT_EQ(made(specs, people(), "label"), "int64: 1 2 1 1");
  const Specs taken{{.name = "concatenator", .columns = {"label"}, .output = "city"}};
  EXPECT_THAT(made(taken, people(), "city"), HasSubstr("there is a column 'city' already"));
  const Specs missing{{.name = "concatenator", .columns = {"age"}, .output = "x"}};
  EXPECT_THAT(made(missing, people(), "x"), HasSubstr("column 'age': some of its values are null"));
}

TEST_F(PreprocessorsTest, ALaterOneLearnsFromWhatAnEarlierOneMakes) {
  const Specs specs{{.name = "simple_imputer",
                     .columns = {"age"},
                     .strategy = "constant",
                     .fill = std::int64_t{30}},
                    {.name = "min_max_scaler", .columns = {"age"}},
                    {.name = "standard_scaler", .columns = {"age"}},
                    {.name = "ordinal_encoder", .columns = {"city"}},
                    {.name = "max_abs_scaler", .columns = {"city"}}};
  Rows rows = people();
  const auto together = fitted_on(specs, rows);
  ASSERT_TRUE(together) << together.error().describe();
  std::vector<FittedPreprocessor> one_by_one;
  for (const PreprocessorSpec& spec : specs) {
    auto one = fitted_on({spec}, rows);
    ASSERT_TRUE(one) << one.error().describe();
    rows = *preprocess(*one, rows);
    one_by_one.push_back(one->front());
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (const auto& [name, column] : one_by_one[i].columns) {
      EXPECT_NEAR((*together)[i].columns.at(name).offset, column.offset, 1e-6) << i;
      EXPECT_NEAR((*together)[i].columns.at(name).scale, column.scale, 1e-6) << i;
    }
  }
}

// The parts are what several workers sum up, so their number must not depend on that of workers.
TEST_F(PreprocessorsTest, SumsOfPartsAreThoseOfTheWhole) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(1000, 3);
  std::vector<std::optional<double>> values;
  double sum = 0, squares = 0;
  for (int i = 0; i < 10'000; ++i) values.push_back(i % 10 == 0 ? kNone : normal(random));
  for (const auto& value : values) sum += std::isnan(*value) ? 0 : *value;
  for (const auto& value : values)
    squares += std::isnan(*value) ? 0 : (*value - sum / 9000) * (*value - sum / 9000);
  const Rows rows = rows_of({{"x", column<arrow::DoubleBuilder, double>(values)}});
  const Specs specs{{.name = "standard_scaler", .columns = {"x"}}};
  for (const std::int64_t part : {10'000, 1024, 7}) {
    const auto fitted = fitted_on(specs, rows, part);
    ASSERT_TRUE(fitted);
    EXPECT_NEAR(fitted->front().columns.at("x").offset, sum / 9000, 1e-9) << part;
    EXPECT_NEAR(fitted->front().columns.at("x").scale, std::sqrt(squares / 9000), 1e-9) << part;
  }
}

TEST_F(PreprocessorsTest, WhatCannotBeLearnedIsRefusedByName) {
  const auto refusal = [](const Specs& specs) { return made(specs, people(), "age"); };
  EXPECT_THAT(refusal({{.name = "standard_scaler", .columns = {"size"}}}),
              HasSubstr("standard_scaler: column 'size': there is no such column, only 'age', "
                        "'city', 'label'"));
  EXPECT_THAT(refusal({{.name = "standard_scaler", .columns = {"city"}}}),
              HasSubstr("standard_scaler: column 'city': it is not of numbers"));
  EXPECT_THAT(refusal({{.name = "one_hot_encoder", .columns = {"age"}}}),
              HasSubstr("column 'age': it is not of whole numbers, true and false, or text"));
  EXPECT_THAT(refusal({{.name = "normalizer", .columns = {"age"}},
                       {.name = "standard_scaler", .columns = {"age"}}}),
              HasSubstr("nothing can be learned of it after normalizer (put standard_scaler before "
                        "normalizer)"));
  const Rows none = rows_of({{"age", column<arrow::DoubleBuilder, double>({{}, kNone})}});
  EXPECT_THAT(made({{.name = "simple_imputer", .columns = {"age"}}}, none, "age"),
              HasSubstr("it has no values: all are missing"));
  const Rows endless = rows_of({{"age", column<arrow::DoubleBuilder, double>({1, -INFINITY})}});
  EXPECT_THAT(made({{.name = "simple_imputer", .columns = {"age"}}}, endless, "age"),
              HasSubstr("simple_imputer: column 'age': some of its values are infinite"));
}

TEST_F(PreprocessorsTest, AColumnOfVeryManyValuesIsNoCategory) {
  std::vector<std::optional<std::int64_t>> values;
  for (std::int64_t i = 0; i < 20'000; ++i) values.emplace_back(i);
  const Rows rows = rows_of({{"id", column<arrow::Int64Builder, std::int64_t>(values)}});
  EXPECT_THAT(made({{.name = "ordinal_encoder", .columns = {"id"}}}, rows, "id"),
              HasSubstr("20000 of its values differ, and 10000 at most can be encoded"));
  EXPECT_THAT(
      made({{.name = "one_hot_encoder", .columns = {"id"}, .max_categories = 2}}, rows, "id"),
      testing::StartsWith("fixed_size_list<item: float>[2]: [1, 0] [0, 1] [0, 0]"));
  ColumnSummary summary;
  for (std::int64_t i = 0; i < 90'000; ++i) summary.counts[i] = 1;
  ColumnSummary more;
  for (std::int64_t i = 90'000; i < 110'000; ++i) more.counts[i] = 1;
  EXPECT_THAT(summary.merge(more).error().describe(),
              HasSubstr("more than 100000 of its values differ"));
}

}  // namespace
}  // namespace train::data
