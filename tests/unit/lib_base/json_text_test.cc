#include "lib/base/json_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "lib/base/utf8.h"

namespace train {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string json_number(double value) {
  std::string out;
  append_json_number(out, value);
  return out;
}

TEST(JsonText, EscapesWhatSteersATerminalAndKeepsOtherText) {
  EXPECT_EQ(json_string("loss"), "\"loss\"");
  EXPECT_EQ(json_string("a\"b\\c\nd\te\r"), R"("a\"b\\c\nd\te\r")");
  EXPECT_EQ(json_string("\x1b[31mred\x07"), R"("\u001b[31mred\u0007")");
  EXPECT_EQ(json_string("\u00e9 \u4f60 \U0001f600"), "\"\u00e9 \u4f60 \U0001f600\"");
  EXPECT_EQ(json_string("a\u202eb\u2066c\u0085d\x7f"), R"("a\u202eb\u2066c\u0085d\u007f")");
  EXPECT_EQ(json_string(std::string_view("nul\0", 4)), R"("nul\u0000")");
}

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_string("\xff!"), "\"\xEF\xBF\xBD!\"");
  EXPECT_EQ(json_string("\xc0\xaf"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");  // overlong
  EXPECT_EQ(json_string("\xed\xa0\x80"),
            "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");               // a surrogate
  EXPECT_EQ(json_string("\xe4\xbd"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");  // cut short
}

TEST(JsonText, WritesDoublesThatReadBackTheSameAndNullForWhatJsonLacks) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(1), "1.0");
  EXPECT_EQ(json_number(-0.0), "-0.0");
  EXPECT_EQ(json_number(1e300), "1e+300");
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "null");
  for (const double value : {1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.123456789}) {
    EXPECT_EQ(std::strtod(json_number(value).c_str(), nullptr), value);
  }
}

TEST(JsonText, WriterKeepsCommasAndIndents) {
  JsonWriter line;
  line.object().member("a", 1).key("b").array().value("x").null().end().member("c",
                                                                               Metrics{{"d", 0.5}});
  EXPECT_EQ(std::move(line.end()).take(), R"({"a":1,"b":["x",null],"c":{"d":0.5}})");

  JsonWriter indented(JsonWriter::Layout::Indented);
  indented.object()
      .member("a", true)
      .key("b")
      .array()
      .end()
      .key("c")
      .array()
      .value(1)
      .value(2)
      .end();
  EXPECT_EQ(std::move(indented.end()).take(),
            "{\n  \"a\": true,\n  \"b\": [],\n  \"c\": [\n    1,\n    2\n  ]\n}\n");
}

TEST(Utf8, MeasuresColumns) {
  EXPECT_EQ(columns_of(std::uint32_t{'a'}), 1);
  EXPECT_EQ(columns_of(std::uint32_t{0x0301}), 0);
  EXPECT_EQ(columns_of(std::uint32_t{0x4f60}), 2);
  EXPECT_EQ(columns_of(std::uint32_t{0x1f600}), 2);
}

}  // namespace
}  // namespace train
