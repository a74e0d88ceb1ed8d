#include "lib/samples/sample_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::ElementsAre;

std::optional<SampleTable> parsed(const std::string& columns) {
  return parse_sample_line(R"({"t":1800000000000,"span":1000,"attempt":0,"kind":"ranks")" +
                           columns + "}");
}

TEST(SampleJson, WritesOneValueWhereAllRowsHaveTheSameAndNothingWhereNoneIsKnown) {
  SampleTable table{.end_ms = kNoon, .span_ms = 1000, .attempt = 2, .rows = {"0", "1", "2", "7"}};
  add(table, "node", {"a", "a", "a", "a"});
  add(table, "phase", {"step", "data", "", "step"});
  add(table, "waits_in", {"", "", "", ""});
  add(table, "cpu", {0.98, 1, kNone, 12.3456});
  add(table, "rss", {1 << 20, 1 << 20, 1 << 20, 1 << 20});
  add(table, "cpu_wait", {kNone, kNone, kNone, kNone});

  EXPECT_EQ(line_of(table),
            R"({"t":1800000000000,"span":1000,"attempt":2,"kind":"ranks","rows":"0-2,7",)"
            R"("node":"a","phase":["step","data","","step"],"cpu":[0.98,1,null,12.346],)"
            R"("rss":1048576})"
            "\n");
}

TEST(SampleJson, ReadsWhatItHasWritten) {
  SampleTable table{.kind = SampleKind::Gpus,
                    .end_ms = kNoon,
                    .span_ms = 2000,
                    .attempt = 1,
                    .rows = {"a/0", "b/1"}};
  add(table, "name", {"H100", "H100"});
  add(table, "use", {0.5, kNone});
  add(table, "foreign", {"", "pid 7 (\"x\")"});
  const std::string line = line_of(table);

  const auto read = parse_sample_line(std::string_view(line).substr(0, line.size() - 1));

  ASSERT_TRUE(read);
  EXPECT_EQ(line_of(*read), line);
  EXPECT_EQ(read->text("foreign", 1), "pid 7 (\"x\")");
  EXPECT_TRUE(std::isnan(read->number("use", 1)));
}

TEST(SampleJson, RoundsToThreeDecimalsAndLargeNumbersToIntegers) {
  const SampleTable table = ranks_at(0, {"0", "1", "2", "3", "4", "5"}, "cpu",
                                     {0.0004, 0.0005, -1.25, 1'234'567.8, 1e15, 2e15});
  EXPECT_THAT(line_of(table),
              testing::HasSubstr(R"("cpu":[0,0.001,-1.25,1234568,1000000000000000,null])"));
}

TEST(SampleJson, PassesOverLinesThatAreNoTables) {
  EXPECT_TRUE(parsed(R"(,"rows":"0-1","cpu":[1,2])"));
  for (const char* columns :
       {R"()", R"(,"rows":"")", R"(,"rows":"1-0")", R"(,"rows":"0,0")", R"(,"rows":"0,")",
        R"(,"rows":"-1")", R"(,"rows":"0-65536")", R"(,"rows":"0-2147483647")",
        R"(,"rows":"99999999999")", R"(,"rows":["0"])", R"(,"rows":"0-1","cpu":[1])",
        R"(,"rows":"0-1","cpu":[1,2)", R"(,"rows":"0","cpu":[[[[]]]])"})
    EXPECT_FALSE(parsed(columns)) << columns;
  for (const char* line :
       {"", "{}", R"({"t":-1,"span":0,"attempt":0,"kind":"ranks","rows":"0"})",
        R"({"t":99999999999999999,"span":0,"attempt":0,"kind":"ranks","rows":"0"})",
        R"({"t":1,"span":5,"attempt":0,"kind":"ranks","rows":"0"})",
        R"({"t":1,"span":0,"attempt":0,"kind":"other","rows":"0"})"})
    EXPECT_FALSE(parse_sample_line(line)) << line;
}

TEST(SampleJson, TakesValuesOfAnotherTypeForUnknownAndLeavesOutUnknownColumns) {
  const auto table = parsed(R"(,"rows":"0-2","cpu":["x",true,3],"phase":7,"later":[1,2])");

  ASSERT_TRUE(table);
  EXPECT_EQ(table->columns.size(), 2u);
  EXPECT_TRUE(std::isnan(table->number("cpu", 0)));
  EXPECT_TRUE(std::isnan(table->number("cpu", 1)));
  EXPECT_EQ(table->number("cpu", 2), 3);
  EXPECT_EQ(table->text("phase", 0), "");
}

TEST(SampleJson, CutsLongTexts) {
  const auto table = parsed(R"(,"rows":"0-1","phase":")" + std::string(1000, 'x') + "\"");

  ASSERT_TRUE(table);
  EXPECT_EQ(table->text("phase", 1).size(), 256u);
}

}  // namespace
}  // namespace train
