#include "lib/model/row_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::ElementsAre;
using Kind = RowFilter::Kind;

/// Return the filter as a text with all brackets.
std::string shown(const RowFilter& filter) {
  const auto joined = [&](const std::string& word) {
    std::string text;
    for (const RowFilter& part : filter.parts)
      text += (text.empty() ? "(" : " " + word + " ") + shown(part);
    return text + ")";
  };
  switch (filter.kind) {
    case Kind::Column:
      return filter.name;
    case Kind::Literal:
      if (const auto* text = std::get_if<std::string>(&filter.value)) return "'" + *text + "'";
      if (const auto* truth = std::get_if<bool>(&filter.value)) return *truth ? "true" : "false";
      if (const auto* whole = std::get_if<std::int64_t>(&filter.value))
        return std::to_string(*whole);
      return std::to_string(std::get<double>(filter.value));
    case Kind::Compare:
      return joined(filter.name);
    case Kind::In:
      return "in" + joined(",");
    case Kind::IsNull:
      return "is_null" + joined("");
    case Kind::Not:
      return "not" + joined("");
    case Kind::And:
      return joined("and");
    case Kind::Or:
      return joined("or");
  }
  return {};
}

std::string parsed(std::string_view text) {
  const auto filter = parse_row_filter(text);
  return filter.has_error() ? filter.error().message : shown(*filter);
}

TEST(RowFilter, ReadsComparisons) {
  EXPECT_EQ(parsed("label < 10"), "(label < 10)");
  EXPECT_EQ(parsed("10>=label"), "(10 >= label)");
  EXPECT_EQ(parsed("a.b = 'it''s'"), "(a.b == 'it's')");
  EXPECT_EQ(parsed("\"unit \"\"price\"\"\" <> -2.5e1"), "(unit \"price\" != -25.000000)");
  EXPECT_EQ(parsed("größe != +9223372036854775807"), "(größe != 9223372036854775807)");
  EXPECT_EQ(parsed("x == 9223372036854775808"), "(x == 9223372036854775808.000000)");
  EXPECT_EQ(parsed("kept"), "kept");
  EXPECT_EQ(parsed("kept == TRUE"), "(kept == true)");
}

TEST(RowFilter, ReadsListsAndNulls) {
  EXPECT_EQ(parsed("x in [1, 2]"), "in(x , 1 , 2)");
  EXPECT_EQ(parsed("x NOT IN ('a')"), "not(in(x , 'a'))");
  EXPECT_EQ(parsed("x is null or y Is Not Null"), "(is_null(x) or not(is_null(y)))");
}

TEST(RowFilter, BindsNotCloserThanAndCloserThanOr) {
  EXPECT_EQ(parsed("a or not b and c or (d or e) and f"),
            "(a or (not(b) and c) or ((d or e) and f))");
  EXPECT_EQ(parsed("not not a == 1"), "not(not((a == 1)))");
}

TEST(RowFilter, SaysWhereItCannotBeRead) {
  EXPECT_EQ(parsed(""), "cannot be read at character 1: a column or a value is missing");
  EXPECT_EQ(parsed("a <"), "cannot be read at character 4: a column or a value is missing");
  EXPECT_EQ(parsed("a < 1 b"),
            "cannot be read at character 7: the condition before it is complete");
  EXPECT_EQ(parsed("a && b"), "cannot be read at character 3: a sign that has no meaning here");
  EXPECT_EQ(parsed("a == 'b"), "cannot be read at character 6: a quote that is not closed");
  EXPECT_EQ(parsed("a == 1x"), "cannot be read at character 6: not a number");
  EXPECT_EQ(parsed("(a"), "cannot be read at character 3: \")\" is missing");
  EXPECT_EQ(parsed("a in 3"), "cannot be read at character 6: \"[\" is missing");
  EXPECT_EQ(parsed("a in []"), "cannot be read at character 7: a column or a value is missing");
  EXPECT_EQ(parsed("a in [b]"),
            "cannot be read at character 7: a list holds numbers or texts in single quotes");
  EXPECT_EQ(parsed("a in [1, 'x']"),
            "cannot be read at character 10: the values of a list must all be whole numbers, other "
            "numbers, or texts");
  EXPECT_EQ(parsed("a is 3"), "cannot be read at character 6: \"null\" is missing after \"is\"");
  EXPECT_EQ(parsed("a not 3"), "cannot be read at character 7: \"in\" is missing after \"not\"");
  EXPECT_EQ(parsed("'a'"), "cannot be read at character 1: a value that is compared with nothing");
  EXPECT_EQ(parsed("null == a"), "cannot be read at character 1: a column or a value is missing");
}

TEST(RowFilter, RefusesWhatWouldGrowWithoutBound) {
  EXPECT_EQ(parsed(std::string(50, '(') + "a" + std::string(50, ')')), "a");
  EXPECT_EQ(parsed(std::string(100'000 / 2, '(')),
            "cannot be read at character 51: more than 50 conditions within each other");
  std::string nots;
  for (int i = 0; i < 51; ++i) nots += "not ";
  EXPECT_EQ(parsed(nots + "a"),
            "cannot be read at character 201: more than 50 conditions within each other");
  std::string many = "a";
  for (int i = 1; i < kFilterTermsMax; ++i) many += " or a";
  EXPECT_TRUE(parsed(many).starts_with("(a or a or"));
  EXPECT_EQ(parsed(many + " or a"), "cannot be read at character 5001: more than 1000 comparisons");
  EXPECT_EQ(parsed(std::string(kFilterBytesMax + 1, ' ')), "has 65537 bytes, and may have 65536");
}

TEST(RowFilter, TellsItsColumns) {
  EXPECT_THAT(columns_of(*parse_row_filter("b < a and not (b in [1] or c is null) and 1 < 2")),
              ElementsAre("b", "a", "c"));
}

}  // namespace
}  // namespace train
